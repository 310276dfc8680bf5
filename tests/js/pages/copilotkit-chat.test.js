import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { it } from "node:test";

import { post } from "../support/api.js";
import { eachTestHasAPerson } from "../support/browser.js";
import { until } from "../support/until.js";
import { dictation, newThread, openPage } from "./copilotkit.js";

const person = eachTestHasAPerson();
const open = (/** @type {any} */ asked) => openPage(person(), { agent: "dictated", ...asked });

it("a thread that nobody has heard of is an empty chat, and no error", async () => {
  const here = await open({ thread: newThread() });
  await here.isEmpty();

  assert.deepEqual([await here.messages(), await here.errors()], [[], []]);
  assert.ok(here.asked("info").length >= 1);
  assert.ok(here.asked("connect").length >= 1);
  assert.equal(here.asked("run").length, 0);
  await here.judge();
});

it("a message is answered, and both are there after a reload", async () => {
  const here = await open({ thread: newThread() });
  await here.isEmpty();
  await here.ask("hello");
  await here.shows("hello", "You said: hello");
  await here.atRest();
  const [messages, state] = [await here.messages(), await here.state()];
  assert.equal(messages.length, 2);
  assert.deepEqual(state, { answers: 1 });
  assert.equal(here.asked("run").length, 1);

  await here.reload();
  await here.shows("hello", "You said: hello");
  await here.atRest();
  assert.deepEqual([await here.messages(), await here.state()], [messages, state]);
  assert.equal(here.asked("run").length, 0, "a reload runs nothing");
  assert.deepEqual(await here.errors(), []);
  await here.judge();
});

it("a page that is reloaded in mid-answer goes on in mid-answer, and ends with it", async () => {
  const { properties, say, end } = dictation();
  const here = await open({ thread: newThread(), properties });
  await here.isEmpty();
  await here.ask("go on");
  say("one two");
  await here.shows("go on", "one two");

  await here.reload();
  await here.shows("go on", "one two");
  assert.equal(await here.running(), true);
  say(" three");
  await here.shows("go on", "one two three");
  await here.reload();
  await here.shows("go on", "one two three");
  say(" four");
  end();
  await here.atRest();
  await here.shows("go on", "one two three four");
  assert.deepEqual((await here.messages()).map(({ content }) => content), ["go on", "one two three four"]);
  assert.equal((await here.state()).answers, 1);

  const messages = await here.messages();
  await here.reload();
  await here.shows("go on", "one two three four");
  assert.deepEqual([await here.messages(), await here.errors()], [messages, []]);
  await here.judge();
});

it("the stop button stops the run, and what was said stays", async () => {
  const thread = randomUUID();
  const { properties, say } = dictation();
  const here = await open({ thread, properties });
  await here.isEmpty();
  await here.ask("go on");
  say("one two");
  await here.shows("go on", "one two");
  await here.stop();
  await here.atRest();

  await here.shows("go on", "one two");
  await until("it asks for that", () => here.asked("stop").length > 0);
  const [{ body: run }, { body: stop }] = [here.asked("run")[0], here.asked("stop")[0]];
  assert.deepEqual(stop, { runId: run.runId }, "only the run that the page had started was to be stopped");
  await until("the thread is idle", async () => (await runsOf(thread)).every(({ status }) => status === "interrupted"));
  assert.deepEqual(await here.errors(), []);

  await here.reload();
  await here.shows("go on");
  assert.equal(await here.running(), false, "nothing goes on after a reload either");
  await here.judge();
});

it("a run that another page started is stopped too", async () => {
  const thread = randomUUID();
  const { properties, say } = dictation();
  const here = await open({ thread, properties });
  await here.isEmpty();
  await here.ask("go on");
  say("one two");
  await here.shows("go on", "one two");
  await here.reload();
  await here.shows("go on", "one two");
  await here.stop();
  await here.atRest();

  await here.shows("go on", "one two");
  await until("the thread is idle", async () => (await runsOf(thread)).every(({ status }) => status === "interrupted"));
  assert.deepEqual(await here.errors(), []);
  await here.judge();
});

it("a chat without a thread's id connects to nothing, and can be talked to", async () => {
  const here = await open({});
  await here.isEmpty();
  await here.ask("hello");
  await here.shows("hello", "You said: hello");
  await here.atRest();
  assert.equal(here.asked("connect").length, 0);
  await here.judge();
});

it("a run that a program started is shown while it goes on", async () => {
  const { thread_id: thread } = await post("/threads", {});
  const { properties, say, end } = dictation();
  const messages = [{ role: "user", id: "u1", content: "from a program" }];
  await post(`/threads/${thread}/runs`, { assistant_id: "dictated", input: { messages, ...properties } });
  const here = await open({ thread });
  say("one");
  await here.shows("from a program", "one");
  say(" two");
  await here.shows("from a program", "one two");
  end();
  await here.atRest();
  await here.shows("from a program", "one two");
  await here.judge();
});

it("two tabs show the same answer while it is given, and the same conversation afterwards", async () => {
  const thread = newThread();
  const { properties, say, end } = dictation();
  const here = await open({ thread, properties });
  await here.isEmpty();
  await here.ask("go on");
  say("one");
  await here.shows("go on", "one");
  const there = await open({ thread });
  await there.shows("go on", "one");
  say(" two");
  await Promise.all([here, there].map((tab) => tab.shows("go on", "one two")));
  end();
  await Promise.all([here, there].map((tab) => tab.atRest()));
  assert.deepEqual(await there.messages(), await here.messages());
  assert.deepEqual(await there.state(), await here.state());
  await Promise.all([here, there].map((tab) => tab.judge()));
});

it("a tab that has missed something undoes nothing, and is shown what it has missed", async () => {
  const thread = newThread();
  const here = await open({ thread });
  await here.isEmpty();
  const there = await open({ thread });
  await there.isEmpty();
  await here.ask("first");
  await here.shows("first", "You said: first");
  await here.atRest();

  await there.ask("second");
  const all = ["first", "You said: first", "second", "You said: second"];
  await there.shows(...all);
  await here.press("Connect again");
  await here.shows(...all);
  await here.judge();
  await there.judge();
});

/** @param {string} thread @returns {Promise<{ status: string }[]>} */
const runsOf = (thread) => fetch(`${process.env["SERVER_URL"]}/threads/${thread}/runs`).then((response) => response.json());
