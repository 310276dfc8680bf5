/** Whatever goes wrong is told to `onError`, with a reason that a person can read. */
import assert from "node:assert/strict";
import { it } from "node:test";

import { post, remove } from "../support/api.js";
import { eachTestHasAPerson } from "../support/browser.js";
import { until } from "../support/until.js";
import { dictation, newThread, openPage } from "./copilotkit.js";

const person = eachTestHasAPerson();
const open = (/** @type {any} */ asked) => openPage(person(), { agent: "dictated", ...asked });

it("a graph that fails in mid-answer", async () => {
  const here = await open({ agent: "stumbles", thread: newThread() });
  await here.isEmpty();
  await here.ask("hello");
  assert.equal((await here.saysError(/kaboom/)).code, "agent_run_error_event");
  await here.atRest();
  assert.deepEqual((await here.errors()).map(({ message }) => message), ["kaboom from the graph"]);
  assert.deepEqual(await here.shown(), ["hello", "Well, I"]);
  await here.judge();
});

for (const [what, thread] of [["too long", "x".repeat(256)], ["with a control character", "bell\u0007"]]) {
  it(`a thread's id that is ${what}`, async () => {
    const here = await open({ thread });
    const { code } = await here.saysError(/^Invalid thread ID/);
    assert.equal(code, "agent_run_error_event", "when it connects");
    await here.ask("hello");
    await here.saysError(/^HTTP 400: .*Invalid thread ID/);
  });
}

it("an agent that does not exist, which CopilotKit tells by itself, with those there are", async () => {
  // It may connect before it has heard which there are, and then does not tell the answer.
  const here = await open({ agent: "nobody", thread: newThread() });
  await until("the page complains", () => here.complaints.some((each) => /'nobody' not found.* dictated/.test(each)));
});

it("an agent that is deleted while the page is open", async () => {
  const { assistant_id: agent } = await post("/assistants", { graph_id: "dictated" });
  const here = await open({ agent, thread: newThread() });
  await here.isEmpty();
  await remove(`/assistants/${agent}`);
  await here.ask("hello");
  assert.match((await here.saysError(/404/)).message, new RegExp(agent));
});

it("a second run on a busy thread", async () => {
  const thread = newThread();
  const { properties, say, end } = dictation();
  const here = await open({ thread, properties });
  await here.isEmpty();
  const there = await open({ thread });
  await there.isEmpty();
  await here.ask("go on");
  say("one");
  await here.shows("go on", "one");

  await there.ask("me too");
  await there.saysError(/409/);
  await there.atRest();
  end();
  await here.atRest();
  await here.shows("go on", "one");
  assert.deepEqual(await here.errors(), []);
});

it("an answer to a question that has been answered in another tab", async () => {
  const thread = newThread();
  const here = await open({ agent: "asks", thread, with: "questions" });
  await here.isEmpty();
  await here.ask("Paint it?");
  await here.asksFor("outcome: Paint it?");
  const there = await open({ agent: "asks", thread, with: "questions" });
  await there.asksFor("outcome: Paint it?");
  await here.press("yes");
  await here.shows("Paint it?", "So: Paint it? yes");

  await there.press("no");
  assert.equal((await there.saysError(/is waiting for an answer/)).code, "agent_run_error_event");
  await there.shows("Paint it?", "So: Paint it? yes");
  await there.asksFor();
  await there.atRest();
  await there.ask("Polish it?");
  await there.asksFor("outcome: Polish it?");
  assert.equal((await there.errors()).length, 1, "it goes on as if it had been there all along");
  await there.judge();
});
