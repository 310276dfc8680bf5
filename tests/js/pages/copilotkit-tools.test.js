import assert from "node:assert/strict";
import { it } from "node:test";

import { useBrowserContext } from "../support/browser.js";
import { until } from "../support/until.js";
import { newThread, openPage } from "./copilotkit.js";

const context = useBrowserContext();
const open = (/** @type {string} */ part) =>
  openPage(context(), { agent: "copilot", thread: newThread(), properties: { user: "Ann" }, with: part });

it("a frontend tool is called once, and the agent continues with its result", async () => {
  const tab = await open("notice");
  await tab.expectEmpty();
  await tab.send("tell me");
  await until("the agent has continued", async () => (await tab.shown()).at(-1) === "shown: a title, Ann!");
  await tab.waitUntilIdle();
  const messages = await tab.messages();
  assert.deepEqual(messages.map(({ role }) => role), ["user", "assistant", "tool", "assistant"]);
  assert.deepEqual(await notices(tab), ["a title"]);
  assert.equal(tab.requestsTo("run").length, 2);

  await tab.reload();
  await until("the reply is loaded", async () => (await tab.shown()).at(-1) === "shown: a title, Ann!");
  await tab.waitUntilIdle();
  assert.deepEqual([await tab.messages(), await notices(tab)], [messages, []], "a reload calls nothing");
  assert.deepEqual(await tab.errors(), []);
  await tab.checkStreams();
});

it("a human-in-the-loop request survives reloads, and is answered once", async () => {
  const tab = await open("approval");
  await tab.expectEmpty();
  await tab.send("may I?");
  await tab.expectToolCall("executing");
  await tab.reload();
  await tab.expectToolCall("executing");
  await tab.reload();
  await tab.expectToolCall("executing");
  assert.equal(tab.requestsTo("run").length, 0);

  await tab.click("Approve");
  await until("the agent has continued", async () => (await tab.shown()).at(-1) === "approved, Ann!");
  await tab.expectToolCall("complete");
  await tab.waitUntilIdle();
  assert.deepEqual((await tab.messages()).map(({ role }) => role), ["user", "assistant", "tool", "assistant"]);

  await tab.reload();
  await tab.expectToolCall("complete");
  assert.deepEqual(await tab.errors(), []);
  await tab.checkStreams();
});

/** @param {{ page: import("playwright-core").Page }} tab */
const notices = ({ page }) => page.evaluate(() => Object(window)["notices"]);
