import assert from "node:assert/strict";
import { it } from "node:test";

import { post, remove } from "../support/api.js";
import { useBrowserContext } from "../support/browser.js";
import { until } from "../support/until.js";
import { openPage } from "./copilotkit.js";

const context = useBrowserContext();

/** The thread list of an agent that no other test uses, and the ids of its threads, the most recent first. */
async function openList(/** @type {string[]} */ ...messages) {
  const { assistant_id: agent } = await post("/assistants", { graph_id: "dictated" });
  /** @type {string[]} */
  const ids = [];
  for (const content of messages) {
    const { thread_id: thread } = await post("/threads", {});
    const input = { messages: [{ role: "user", id: `u-${thread}`, content }] };
    await post(`/threads/${thread}/runs/wait`, { assistant_id: agent, input });
    ids.unshift(thread);
  }
  const tab = await openPage(context(), { agent, with: "threads" });
  const listed = () => tab.page.locator("[data-thread]").evaluateAll((all) => all.map((each) => each.dataset["thread"]));
  return {
    tab,
    ids,
    entry: (/** @type {string} */ id) => tab.page.locator(`[data-thread="${id}"]`),
    /** @param {...string} expected */
    expectThreads: (...expected) =>
      until(`the page lists ${expected}`, async () => JSON.stringify(await listed()) === JSON.stringify(expected)),
  };
}

it("the thread list is paginated, and the selected thread is shown", async () => {
  const { tab, ids, entry, expectThreads } = await openList("one", "two", "three");
  await expectThreads(ids[0], ids[1]);
  await tab.click("more");
  await expectThreads(...ids);
  await entry(ids[2]).getByText("Untitled").click();
  await tab.expectMessages("one", "You said: one");
  await entry(ids[0]).getByText("Untitled").click();
  await tab.expectMessages("three", "You said: three");
  await tab.checkStreams();
});

it("renaming, archiving and deleting a thread survives a reload", async () => {
  const { tab, ids, entry, expectThreads } = await openList("one", "two");
  await expectThreads(...ids);
  await entry(ids[1]).getByText("rename").click();
  await entry(ids[1]).getByText("Renamed").waitFor();
  await entry(ids[0]).getByText("archive").click();
  await expectThreads(ids[1]);
  await tab.reload();
  await expectThreads(ids[1]);
  await entry(ids[1]).getByText("Renamed").waitFor();
  await entry(ids[1]).getByText("delete").click();
  await expectThreads();
  await tab.reload();
  await tab.click("reload");
  await expectThreads();
});

it("a rejected change is undone and reported", async () => {
  const { tab, ids, entry, expectThreads } = await openList("one");
  await expectThreads(ids[0]);
  await remove(`/threads/${ids[0]}`);
  await entry(ids[0]).getByText("delete").click();
  await tab.page.getByRole("alert").getByText(/404/).waitFor();
  await expectThreads(ids[0]);
  await tab.click("reload");
  await expectThreads();
});
