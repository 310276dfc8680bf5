import assert from "node:assert/strict";
import { test } from "node:test";

import { agent, hasSent, judge, newThread, says, texts } from "../support/copilotkit.js";
import { until } from "../support/until.js";

test("a conversation is had, and found again by a page that loads", async () => {
  const here = agent("chat");
  here.addMessage(says("one"));
  await here.runAgent();
  here.addMessage(says("two"));
  await here.runAgent();
  const there = agent("chat", here.threadId);
  await there.connectAgent();

  assert.deepEqual(
    texts(here.messages).map(([, text]) => text),
    ["one", "You said: one", "two", "You said: two"],
  );
  assert.deepEqual(there.messages, here.messages);
  assert.deepEqual(there.state, here.state);
  await judge(3);
});

test("an agent and a thread may have odd names", async () => {
  const here = agent("chat", `${newThread()} / 100% ü`);
  here.addMessage(says("hello"));
  await here.runAgent();
  const there = agent("chat", here.threadId);
  await there.connectAgent();

  assert.deepEqual(there.messages, here.messages);
  await judge(2);
});

test("a thread that nobody has made is empty, and no error", async () => {
  const here = agent("chat");
  const failures = [];
  await here.connectAgent({}, { onRunErrorEvent: ({ event }) => failures.push(event), onRunFailed: (e) => failures.push(e) });

  assert.deepEqual([failures, here.messages], [[], []]);
  await judge();
});

/** @param {any} agent @param {string} text */
const hasSaid = (agent, text) =>
  agent.messages.some(({ role, content }) => role === "assistant" && content?.includes(text));

test("a page that loads in the middle of an answer has all of it in the end", async () => {
  const here = agent("chat", newThread(), { initialState: { delay: 0.05 } });
  const question = "a long answer in many words, please, one word after the other";
  here.addMessage(says(question));
  const running = here.runAgent();
  await until("it speaks", () => hasSaid(here, "a long"));
  const late = agent("chat", here.threadId);
  await late.connectAgent();
  await running;

  assert.equal(late.messages.at(-1).content, `You said: ${question}`);
  assert.deepEqual(late.messages, here.messages);
  await judge(2);
});

test("a run that is stopped keeps what it has said", async () => {
  const here = agent("chat", newThread(), { initialState: { delay: 0.05 } });
  here.addMessage(says("one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen"));
  const running = here.runAgent();
  await until("it speaks", () => hasSaid(here, "three"));
  here.abortRun();
  await running;

  const said = here.messages.at(-1).content;
  assert.ok(said.startsWith("You said: one two three"));
  assert.ok(!said.includes("fifteen"));
  assert.equal(here.isRunning, false);
  await judge();
});

test("a run that is stopped before it has arrived is stopped all the same", async () => {
  const here = agent("slow", newThread(), { initialState: { seconds: 60 } });
  const running = here.runAgent();
  await until("it is on its way", () => hasSent(here.threadId));
  here.abortRun();
  await running;

  assert.ok(!here.state.steps?.includes("waited"));
  await judge();
});

test("a page that only watches can stop a run too", async () => {
  const here = agent("slow", newThread(), { initialState: { seconds: 60 } });
  const running = here.runAgent();
  await until("it runs", () => here.state.steps?.length === 1);
  const late = agent("slow", here.threadId);
  const watching = late.connectAgent();
  await until("it watches", () => late.state.steps?.length === 1);
  late.abortRun();
  await Promise.all([running, watching]);

  assert.deepEqual(here.state.steps, ["begun"]);
  assert.deepEqual(late.state, here.state);
  await judge(2);
});

test("an interrupt is asked again after a reload, and answered in the way of 1.0", async () => {
  const here = agent("approve", newThread(), { initialState: { topic: "tests" } });
  await here.runAgent();
  const late = agent("approve", here.threadId);
  await late.connectAgent();
  const [asked] = late.pendingInterrupts;

  assert.equal(asked.message, "ok?");
  await late.runAgent({ resume: [{ interruptId: asked.id, status: "resolved", payload: { approved: true } }] });
  assert.deepEqual(late.state.answer, { approved: true });
  assert.deepEqual(late.pendingInterrupts, []);
  await judge(3);
});

test("an interrupt is told and answered in the way of the older hooks", async () => {
  const here = agent("approve", newThread(), { initialState: { topic: "tests" } });
  const told = [];
  await here.runAgent({}, { onCustomEvent: ({ event }) => told.push([event.name, JSON.parse(event.value)]) });
  assert.deepEqual(told, [["on_interrupt", { question: "ok?", topic: "tests" }]]);

  const fresh = agent("approve", here.threadId);
  await fresh.runAgent({ forwardedProps: { command: { resume: "yes", interruptEvent: told[0][1] } } });
  assert.equal(fresh.state.answer, "yes");
  await judge(2);
});

test("a second run on a busy thread is an error that pages see", async () => {
  const here = agent("slow", newThread(), { initialState: { seconds: 60 } });
  const running = here.runAgent();
  await until("it runs", () => here.state.steps?.length === 1);
  const other = agent("slow", here.threadId);

  await assert.rejects(other.runAgent(), /409/);
  here.abortRun();
  await running;
  await judge();
});

test("an agent that does not exist is an error that pages see", async () => {
  const here = agent("nope");
  await assert.rejects(here.runAgent(), /404/);
  await assert.rejects(agent("nope").connectAgent(), /404/);
});

test("a graph that fails is an error that pages see", async () => {
  const here = agent("fails", newThread(), { initialState: { text: "x" } });
  const failures = [];
  await here.runAgent({}, { onRunErrorEvent: ({ event }) => failures.push(event.message) });

  assert.deepEqual(failures, ["boom!"]);
  await judge();
});

test("the transport is found out when none is given", async () => {
  const here = agent("chat", newThread(), { transport: "auto", runtimeMode: "pending" });
  here.addMessage(says("hello"));
  await here.runAgent();
  assert.equal(here.messages.at(-1).content, "You said: hello");
  await judge();
});
