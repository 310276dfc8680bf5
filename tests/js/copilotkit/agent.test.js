import assert from "node:assert/strict";
import { test } from "node:test";

import { checkStreams, createAgent, hasSent, newThread, texts, userMessage } from "../support/copilotkit.js";
import { until } from "../support/until.js";

test("a conversation is restored when a page loads", async () => {
  const agent = createAgent("chat");
  agent.addMessage(userMessage("one"));
  await agent.runAgent();
  agent.addMessage(userMessage("two"));
  await agent.runAgent();
  const reloaded = createAgent("chat", agent.threadId);
  await reloaded.connectAgent();

  assert.deepEqual(
    texts(agent.messages).map(([, text]) => text),
    ["one", "You said: one", "two", "You said: two"],
  );
  assert.deepEqual(reloaded.messages, agent.messages);
  assert.deepEqual(reloaded.state, agent.state);
  await checkStreams(3);
});

test("agents and threads may have unusual names", async () => {
  const agent = createAgent("chat", `${newThread()} / 100% ü`);
  agent.addMessage(userMessage("hello"));
  await agent.runAgent();
  const reloaded = createAgent("chat", agent.threadId);
  await reloaded.connectAgent();

  assert.deepEqual(reloaded.messages, agent.messages);
  await checkStreams(2);
});

test("an unknown thread is empty and not an error", async () => {
  const agent = createAgent("chat");
  const failures = [];
  await agent.connectAgent({}, { onRunErrorEvent: ({ event }) => failures.push(event), onRunFailed: (e) => failures.push(e) });

  assert.deepEqual([failures, agent.messages], [[], []]);
  await checkStreams();
});

/** @param {any} agent @param {string} text */
const hasReplied = (agent, text) =>
  agent.messages.some(({ role, content }) => role === "assistant" && content?.includes(text));

test("a page that loads in the middle of a reply gets the complete reply", async () => {
  const agent = createAgent("chat", newThread(), { initialState: { delay: 0.05 } });
  const question = "a long answer in many words, please, one word after the other";
  agent.addMessage(userMessage(question));
  const running = agent.runAgent();
  await until("the reply has started", () => hasReplied(agent, "a long"));
  const other = createAgent("chat", agent.threadId);
  await other.connectAgent();
  await running;

  assert.equal(other.messages.at(-1).content, `You said: ${question}`);
  assert.deepEqual(other.messages, agent.messages);
  await checkStreams(2);
});

test("a stopped run keeps its partial reply", async () => {
  const agent = createAgent("chat", newThread(), { initialState: { delay: 0.05 } });
  agent.addMessage(userMessage("one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen"));
  const running = agent.runAgent();
  await until("the reply has started", () => hasReplied(agent, "three"));
  agent.abortRun();
  await running;

  const reply = agent.messages.at(-1).content;
  assert.ok(reply.startsWith("You said: one two three"));
  assert.ok(!reply.includes("fifteen"));
  assert.equal(agent.isRunning, false);
  await checkStreams();
});

test("a run can be stopped before the server has accepted it", async () => {
  const agent = createAgent("slow", newThread(), { initialState: { seconds: 60 } });
  const running = agent.runAgent();
  await until("the request is sent", () => hasSent(agent.threadId));
  agent.abortRun();
  await running;

  assert.ok(!agent.state.steps?.includes("waited"));
  await checkStreams();
});

test("a page that only connected can stop a run", async () => {
  const agent = createAgent("slow", newThread(), { initialState: { seconds: 60 } });
  const running = agent.runAgent();
  await until("the run has started", () => agent.state.steps?.length === 1);
  const other = createAgent("slow", agent.threadId);
  const connecting = other.connectAgent();
  await until("the other page is connected", () => other.state.steps?.length === 1);
  other.abortRun();
  await Promise.all([running, connecting]);

  assert.deepEqual(agent.state.steps, ["begun"]);
  assert.deepEqual(other.state, agent.state);
  await checkStreams(2);
});

test("an interrupt is shown again after a reload, and answered with the 1.0 protocol", async () => {
  const agent = createAgent("approve", newThread(), { initialState: { topic: "tests" } });
  await agent.runAgent();
  const other = createAgent("approve", agent.threadId);
  await other.connectAgent();
  const [interrupt] = other.pendingInterrupts;

  assert.equal(interrupt.message, "ok?");
  await other.runAgent({ resume: [{ interruptId: interrupt.id, status: "resolved", payload: { approved: true } }] });
  assert.deepEqual(other.state.answer, { approved: true });
  assert.deepEqual(other.pendingInterrupts, []);
  await checkStreams(3);
});

test("an interrupt is received and answered with the protocol of the older hooks", async () => {
  const agent = createAgent("approve", newThread(), { initialState: { topic: "tests" } });
  const received = [];
  await agent.runAgent({}, { onCustomEvent: ({ event }) => received.push([event.name, JSON.parse(event.value)]) });
  assert.deepEqual(received, [["on_interrupt", { question: "ok?", topic: "tests" }]]);

  const reloaded = createAgent("approve", agent.threadId);
  await reloaded.runAgent({ forwardedProps: { command: { resume: "yes", interruptEvent: received[0][1] } } });
  assert.equal(reloaded.state.answer, "yes");
  await checkStreams(2);
});

test("a second run on a busy thread fails with an error", async () => {
  const agent = createAgent("slow", newThread(), { initialState: { seconds: 60 } });
  const running = agent.runAgent();
  await until("the run has started", () => agent.state.steps?.length === 1);
  const other = createAgent("slow", agent.threadId);

  await assert.rejects(other.runAgent(), /409/);
  agent.abortRun();
  await running;
  await checkStreams();
});

test("an unknown agent fails with an error", async () => {
  const agent = createAgent("nope");
  await assert.rejects(agent.runAgent(), /404/);
  await assert.rejects(createAgent("nope").connectAgent(), /404/);
});

test("a failing graph reports its error", async () => {
  const agent = createAgent("fails", newThread(), { initialState: { text: "x" } });
  const failures = [];
  await agent.runAgent({}, { onRunErrorEvent: ({ event }) => failures.push(event.message) });

  assert.deepEqual(failures, ["boom!"]);
  await checkStreams();
});

test("the transport is detected if none is configured", async () => {
  const agent = createAgent("chat", newThread(), { transport: "auto", runtimeMode: "pending" });
  agent.addMessage(userMessage("hello"));
  await agent.runAgent();
  assert.equal(agent.messages.at(-1).content, "You said: hello");
  await checkStreams();
});
