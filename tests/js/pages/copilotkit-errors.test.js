/** Every error is reported to `onError`, with a readable reason. */
import assert from "node:assert/strict";
import { it } from "node:test";

import { post, remove } from "../support/api.js";
import { useBrowserContext } from "../support/browser.js";
import { until } from "../support/until.js";
import { dictation, newThread, openPage } from "./copilotkit.js";

const context = useBrowserContext();
const open = (/** @type {any} */ options) => openPage(context(), { agent: "dictated", ...options });

it("a graph that fails in the middle of a reply", async () => {
  const tab = await open({ agent: "stumbles", thread: newThread() });
  await tab.expectEmpty();
  await tab.send("hello");
  assert.equal((await tab.expectError(/kaboom/)).code, "agent_run_error_event");
  await tab.waitUntilIdle();
  assert.deepEqual((await tab.errors()).map(({ message }) => message), ["kaboom from the graph"]);
  assert.deepEqual(await tab.shown(), ["hello", "Well, I"]);
  await tab.checkStreams();
});

for (const [what, thread] of [["too long", "x".repeat(256)], ["with a control character", "bell\u0007"]]) {
  it(`a thread id that is ${what}`, async () => {
    const tab = await open({ thread });
    const { code } = await tab.expectError(/^Thread .* not found: Invalid thread ID/);
    assert.equal(code, "agent_run_error_event", "when it connects");
    await tab.send("hello");
    await tab.expectError(/^HTTP 400: .*Invalid thread ID/);
  });
}

it("an unknown agent, which CopilotKit itself reports with the known agents", async () => {
  // CopilotKit may connect before it has the list of agents, and then does not report the response.
  const tab = await open({ agent: "unknown", thread: newThread() });
  await until("the page logs an error", () => tab.consoleErrors.some((each) => /'unknown' not found.* dictated/.test(each)));
});

it("an agent that is deleted while the page is open", async () => {
  const { assistant_id: agent } = await post("/assistants", { graph_id: "dictated" });
  const tab = await open({ agent, thread: newThread() });
  await tab.expectEmpty();
  await remove(`/assistants/${agent}`);
  await tab.send("hello");
  assert.match((await tab.expectError(/404/)).message, new RegExp(agent));
});

it("a second run on a busy thread", async () => {
  const thread = newThread();
  const { properties, write, end } = dictation();
  const tab = await open({ thread, properties });
  await tab.expectEmpty();
  const otherTab = await open({ thread });
  await otherTab.expectEmpty();
  await tab.send("continue");
  write("one");
  await tab.expectMessages("continue", "one");

  await otherTab.send("me too");
  await otherTab.expectError(/409/);
  await otherTab.waitUntilIdle();
  end();
  await tab.waitUntilIdle();
  await tab.expectMessages("continue", "one");
  assert.deepEqual(await tab.errors(), []);
});

it("an answer to an interrupt that was answered in another tab", async () => {
  const thread = newThread();
  const tab = await open({ agent: "asks", thread, with: "interrupts" });
  await tab.expectEmpty();
  await tab.send("Paint it?");
  await tab.expectInterrupts("outcome: Paint it?");
  const otherTab = await open({ agent: "asks", thread, with: "interrupts" });
  await otherTab.expectInterrupts("outcome: Paint it?");
  await tab.click("yes");
  await tab.expectMessages("Paint it?", "So: Paint it? yes");

  await otherTab.click("no");
  assert.equal((await otherTab.expectError(/is waiting for an answer/)).code, "agent_run_error_event");
  await otherTab.expectMessages("Paint it?", "So: Paint it? yes");
  await otherTab.expectInterrupts();
  await otherTab.waitUntilIdle();
  await otherTab.send("Polish it?");
  await otherTab.expectInterrupts("outcome: Polish it?");
  assert.equal((await otherTab.errors()).length, 1, "the tab works normally afterwards");
  await otherTab.checkStreams();
});
