import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { it } from "node:test";

import { post } from "../support/api.js";
import { useBrowserContext } from "../support/browser.js";
import { until } from "../support/until.js";
import { dictation, newThread, openPage } from "./copilotkit.js";

const context = useBrowserContext();
const open = (/** @type {any} */ options) => openPage(context(), { agent: "dictated", ...options });

it("an unknown thread is an empty chat and not an error", async () => {
  const tab = await open({ thread: newThread() });
  await tab.expectEmpty();

  assert.deepEqual([await tab.messages(), await tab.errors()], [[], []]);
  assert.ok(tab.requestsTo("info").length >= 1);
  assert.ok(tab.requestsTo("connect").length >= 1);
  assert.equal(tab.requestsTo("run").length, 0);
  await tab.checkStreams();
});

it("a message and its reply survive a reload", async () => {
  const tab = await open({ thread: newThread() });
  await tab.expectEmpty();
  await tab.send("hello");
  await tab.expectMessages("hello", "You said: hello");
  await tab.waitUntilIdle();
  const [messages, state] = [await tab.messages(), await tab.state()];
  assert.equal(messages.length, 2);
  assert.deepEqual(state, { answers: 1 });
  assert.equal(tab.requestsTo("run").length, 1);

  await tab.reload();
  await tab.expectMessages("hello", "You said: hello");
  await tab.waitUntilIdle();
  assert.deepEqual([await tab.messages(), await tab.state()], [messages, state]);
  assert.equal(tab.requestsTo("run").length, 0, "a reload starts no run");
  assert.deepEqual(await tab.errors(), []);
  await tab.checkStreams();
});

it("a page reloaded in the middle of a reply streams the rest of it", async () => {
  const { properties, write, end } = dictation();
  const tab = await open({ thread: newThread(), properties });
  await tab.expectEmpty();
  await tab.send("continue");
  write("one two");
  await tab.expectMessages("continue", "one two");

  await tab.reload();
  await tab.expectMessages("continue", "one two");
  assert.equal(await tab.isRunning(), true);
  write(" three");
  await tab.expectMessages("continue", "one two three");
  await tab.reload();
  await tab.expectMessages("continue", "one two three");
  write(" four");
  end();
  await tab.waitUntilIdle();
  await tab.expectMessages("continue", "one two three four");
  assert.deepEqual((await tab.messages()).map(({ content }) => content), ["continue", "one two three four"]);
  assert.equal((await tab.state()).answers, 1);

  const messages = await tab.messages();
  await tab.reload();
  await tab.expectMessages("continue", "one two three four");
  assert.deepEqual([await tab.messages(), await tab.errors()], [messages, []]);
  await tab.checkStreams();
});

it("the stop button stops the run and keeps the partial reply", async () => {
  const thread = randomUUID();
  const { properties, write } = dictation();
  const tab = await open({ thread, properties });
  await tab.expectEmpty();
  await tab.send("continue");
  write("one two");
  await tab.expectMessages("continue", "one two");
  await tab.stop();
  await tab.waitUntilIdle();

  await tab.expectMessages("continue", "one two");
  await until("the stop request is sent", () => tab.requestsTo("stop").length > 0);
  const [{ body: run }, { body: stop }] = [tab.requestsTo("run")[0], tab.requestsTo("stop")[0]];
  assert.deepEqual(stop, { runId: run.runId }, "only the run that the page started is stopped");
  await until("the thread is idle", async () => (await runsOf(thread)).every(({ status }) => status === "interrupted"));
  assert.deepEqual(await tab.errors(), []);

  await tab.reload();
  await tab.expectMessages("continue");
  assert.equal(await tab.isRunning(), false, "no run is active after a reload");
  await tab.checkStreams();
});

it("a run that another page started can be stopped", async () => {
  const thread = randomUUID();
  const { properties, write } = dictation();
  const tab = await open({ thread, properties });
  await tab.expectEmpty();
  await tab.send("continue");
  write("one two");
  await tab.expectMessages("continue", "one two");
  await tab.reload();
  await tab.expectMessages("continue", "one two");
  await tab.stop();
  await tab.waitUntilIdle();

  await tab.expectMessages("continue", "one two");
  await until("the thread is idle", async () => (await runsOf(thread)).every(({ status }) => status === "interrupted"));
  assert.deepEqual(await tab.errors(), []);
  await tab.checkStreams();
});

it("a chat without a thread id does not connect, but can start a run", async () => {
  const tab = await open({});
  await tab.expectEmpty();
  await tab.send("hello");
  await tab.expectMessages("hello", "You said: hello");
  await tab.waitUntilIdle();
  assert.equal(tab.requestsTo("connect").length, 0);
  await tab.checkStreams();
});

it("a run started through the API is shown while it is active", async () => {
  const { thread_id: thread } = await post("/threads", {});
  const { properties, write, end } = dictation();
  const messages = [{ role: "user", id: "u1", content: "from a program" }];
  await post(`/threads/${thread}/runs`, { assistant_id: "dictated", input: { messages, ...properties } });
  const tab = await open({ thread });
  write("one");
  await tab.expectMessages("from a program", "one");
  write(" two");
  await tab.expectMessages("from a program", "one two");
  end();
  await tab.waitUntilIdle();
  await tab.expectMessages("from a program", "one two");
  await tab.checkStreams();
});

it("two tabs show the same reply while it is streamed, and the same conversation afterwards", async () => {
  const thread = newThread();
  const { properties, write, end } = dictation();
  const tab = await open({ thread, properties });
  await tab.expectEmpty();
  await tab.send("continue");
  write("one");
  await tab.expectMessages("continue", "one");
  const otherTab = await open({ thread });
  await otherTab.expectMessages("continue", "one");
  write(" two");
  await Promise.all([tab, otherTab].map((each) => each.expectMessages("continue", "one two")));
  end();
  await Promise.all([tab, otherTab].map((each) => each.waitUntilIdle()));
  assert.deepEqual(await otherTab.messages(), await tab.messages());
  assert.deepEqual(await otherTab.state(), await tab.state());
  await Promise.all([tab, otherTab].map((each) => each.checkStreams()));
});

it("a tab that missed a run does not undo it, and gets what it missed", async () => {
  const thread = newThread();
  const tab = await open({ thread });
  await tab.expectEmpty();
  const otherTab = await open({ thread });
  await otherTab.expectEmpty();
  await tab.send("first");
  await tab.expectMessages("first", "You said: first");
  await tab.waitUntilIdle();

  await otherTab.send("second");
  const conversation = ["first", "You said: first", "second", "You said: second"];
  await otherTab.expectMessages(...conversation);
  await tab.click("Reconnect");
  await tab.expectMessages(...conversation);
  await tab.checkStreams();
  await otherTab.checkStreams();
});

/** @param {string} thread @returns {Promise<{ status: string }[]>} */
const runsOf = (thread) => fetch(`${process.env["SERVER_URL"]}/threads/${thread}/runs`).then((response) => response.json());
