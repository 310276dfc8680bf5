import assert from "node:assert/strict";
import { it } from "node:test";

import { post, remove } from "../support/api.js";
import { eachTestHasAPerson } from "../support/browser.js";
import { until } from "../support/until.js";
import { openPage } from "./copilotkit.js";

const person = eachTestHasAPerson();

/** The list of an agent that no other test has, and the ids of its threads, the one that ran last first. */
async function list(/** @type {string[]} */ ...said) {
  const { assistant_id: agent } = await post("/assistants", { graph_id: "dictated" });
  /** @type {string[]} */
  const ids = [];
  for (const content of said) {
    const { thread_id: thread } = await post("/threads", {});
    const input = { messages: [{ role: "user", id: `u-${thread}`, content }] };
    await post(`/threads/${thread}/runs/wait`, { assistant_id: agent, input });
    ids.unshift(thread);
  }
  const here = await openPage(person(), { agent, with: "threads" });
  const listed = () => here.page.locator("[data-thread]").evaluateAll((all) => all.map((each) => each.dataset["thread"]));
  return {
    here,
    ids,
    entry: (/** @type {string} */ id) => here.page.locator(`[data-thread="${id}"]`),
    /** @param {...string} those */
    lists: (...those) => until(`it lists ${those}`, async () => JSON.stringify(await listed()) === JSON.stringify(those)),
  };
}

it("threads are listed a page at a time, and the chosen one is shown", async () => {
  const { here, ids, entry, lists } = await list("one", "two", "three");
  await lists(ids[0], ids[1]);
  await here.press("more");
  await lists(...ids);
  await entry(ids[2]).getByText("Untitled").click();
  await here.shows("one", "You said: one");
  await entry(ids[0]).getByText("Untitled").click();
  await here.shows("three", "You said: three");
  await here.judge();
});

it("a thread is renamed, archived and deleted, and stays so", async () => {
  const { here, ids, entry, lists } = await list("one", "two");
  await lists(...ids);
  await entry(ids[1]).getByText("rename").click();
  await entry(ids[1]).getByText("Renamed").waitFor();
  await entry(ids[0]).getByText("archive").click();
  await lists(ids[1]);
  await here.reload();
  await lists(ids[1]);
  await entry(ids[1]).getByText("Renamed").waitFor();
  await entry(ids[1]).getByText("delete").click();
  await lists();
  await here.reload();
  await here.press("again");
  await lists();
});

it("a change that is refused is taken back, and told", async () => {
  const { here, ids, entry, lists } = await list("one");
  await lists(ids[0]);
  await remove(`/threads/${ids[0]}`);
  await entry(ids[0]).getByText("delete").click();
  await here.page.getByRole("alert").getByText(/404/).waitFor();
  await lists(ids[0]);
  await here.press("again");
  await lists();
});
