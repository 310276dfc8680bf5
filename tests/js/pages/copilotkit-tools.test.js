import assert from "node:assert/strict";
import { it } from "node:test";

import { eachTestHasAPerson } from "../support/browser.js";
import { until } from "../support/until.js";
import { newThread, openPage } from "./copilotkit.js";

const person = eachTestHasAPerson();
const open = (/** @type {string} */ part) =>
  openPage(person(), { agent: "copilot", thread: newThread(), properties: { user: "Ann" }, with: part });

it("a tool of the page is called there once, and the agent goes on with what it says", async () => {
  const here = await open("notice");
  await here.isEmpty();
  await here.ask("tell me");
  await until("the agent goes on", async () => (await here.shown()).at(-1) === "shown: a title, Ann!");
  await here.atRest();
  const messages = await here.messages();
  assert.deepEqual(messages.map(({ role }) => role), ["user", "assistant", "tool", "assistant"]);
  assert.deepEqual(await notices(here), ["a title"]);
  assert.equal(here.asked("run").length, 2);

  await here.reload();
  await until("it is there again", async () => (await here.shown()).at(-1) === "shown: a title, Ann!");
  await here.atRest();
  assert.deepEqual([await here.messages(), await notices(here)], [messages, []], "a reload calls nothing");
  assert.deepEqual(await here.errors(), []);
  await here.judge();
});

it("a question to a person outlives reloads, and is answered once", async () => {
  const here = await open("approval");
  await here.isEmpty();
  await here.ask("may I?");
  await here.requestIs("executing");
  await here.reload();
  await here.requestIs("executing");
  await here.reload();
  await here.requestIs("executing");
  assert.equal(here.asked("run").length, 0);

  await here.press("Approve");
  await until("the agent goes on", async () => (await here.shown()).at(-1) === "approved, Ann!");
  await here.requestIs("complete");
  await here.atRest();
  assert.deepEqual((await here.messages()).map(({ role }) => role), ["user", "assistant", "tool", "assistant"]);

  await here.reload();
  await here.requestIs("complete");
  assert.deepEqual(await here.errors(), []);
  await here.judge();
});

/** @param {{ page: import("playwright-core").Page }} here */
const notices = ({ page }) => page.evaluate(() => Object(window)["notices"]);
