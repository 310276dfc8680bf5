/** Every part of what `useStream` gives a page, once. What a person sees of it is proved in ../hook. */
import assert from "node:assert/strict";
import { afterEach, test } from "node:test";

import { closeAll, openChat } from "../support/chat.js";
import { client, says } from "../support/sdk.js";
import { mention, note } from "../support/tour.js";
import { until } from "../support/until.js";

afterEach(closeAll);

/**
 * What the hook gave last, with a note of what is taken from it.
 *
 * @param {ReturnType<typeof openChat>} chat
 */
function taken(chat) {
  const thread = chat.hook();
  mention(Object.keys(thread));
  return new Proxy(thread, { get: (target, name) => (note(String(name)), target[name]) });
}

test("a conversation", async () => {
  const { thread_id: threadId } = await client.threads.create();
  const chat = openChat({ assistantId: "tool_chat", threadId, fetchStateHistory: true });

  await taken(chat).submit(says("what is 1 + 2?"));
  await until("the sum is told", () => chat.answer() === "The sum is 3");
  await chat.isDone();
  await until("the past is there", () => taken(chat).history.length > 0);

  const thread = taken(chat);
  assert.equal(thread.values.messages.length, 4);
  assert.equal(thread.messages.length, 4);
  assert.equal(thread.isLoading, false);
  assert.equal(thread.isThreadLoading, false);
  assert.equal(thread.error, undefined);
  assert.equal(thread.assistantId, "tool_chat");
  assert.equal(typeof thread.client.threads.get, "function");
  assert.deepEqual(thread.toolCalls.map((/** @type {any} */ each) => each.call.name), ["add"]);
  assert.equal(thread.getToolCalls(thread.messages[1]).length, 1);
  assert.ok(thread.experimental_branchTree);
  assert.equal(thread.branch, "");
  assert.ok(thread.getMessagesMetadata(thread.messages[1]).firstSeenState);
});

test("two versions of an answer", async () => {
  const { thread_id: threadId } = await client.threads.create();
  await client.runs.wait(threadId, "chat", { input: says("hi") });
  const chat = openChat({ assistantId: "chat", threadId, fetchStateHistory: true });
  await until("the past is shown", () => chat.shown().length === 2);
  chat.again();
  await until("there are two branches", () => chat.branches().length === 2);

  const [first] = chat.branches();
  taken(chat).setBranch(first);
  await until("the first is shown", () => taken(chat).branch === first);
});

test("a question", async () => {
  const chat = openChat({ assistantId: "approve" });
  chat.say("go");
  await until("the question is shown", () => chat.question() !== null);
  await chat.isDone();

  assert.deepEqual(taken(chat).interrupt.value, { question: "May I?" });
  assert.equal(taken(chat).interrupts.length, 1);
});

test("a run is joined, and another stopped", async () => {
  const { thread_id: threadId } = await client.threads.create();
  const options = { streamMode: ["values", "messages-tuple"], streamResumable: true };
  const { run_id } = await client.runs.create(threadId, "slow_chat", { input: says("hi"), ...options });
  const chat = openChat({ assistantId: "slow_chat", threadId });
  void taken(chat).joinStream(run_id);
  await chat.showsWords(60);
  await chat.isDone();

  chat.say("more");
  await until("it answers", () => chat.busy() && chat.shown().length > 3);
  void taken(chat).stop();
  await chat.isDone();
});

test("what a graph without subagents has of them", async () => {
  const chat = openChat({ assistantId: "chat" });
  await chat.isDone();
  const thread = taken(chat);

  assert.equal(thread.subagents.size, 0);
  assert.deepEqual(thread.activeSubagents, []);
  assert.equal(thread.getSubagent("nobody"), undefined);
  assert.deepEqual(thread.getSubagentsByType("nobody"), []);
  assert.deepEqual(thread.getSubagentsByMessage("nobody"), []);
  if ("toolProgress" in thread) assert.deepEqual(thread.toolProgress, []);
});

test("another thread", async () => {
  const { thread_id: threadId } = await client.threads.create();
  await client.runs.wait(threadId, "chat", { input: says("hi") });
  const chat = openChat({ assistantId: "chat", fetchStateHistory: true });
  await chat.isDone();
  if (!("switchThread" in taken(chat))) return;

  taken(chat).switchThread(threadId);
  await until("its past is shown", () => chat.shown().length === 2);
});
