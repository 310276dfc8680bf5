/** Uses every field that `useStream` returns, once. ../hook tests what the user sees. */
import assert from "node:assert/strict";
import { afterEach, test } from "node:test";

import { closeAll, openChat } from "../support/chat.js";
import { client, userInput } from "../support/sdk.js";
import { declareAvailable, markUsed } from "../support/tour.js";
import { until } from "../support/until.js";

afterEach(closeAll);

/**
 * What the hook returned last, recording which fields are read.
 *
 * @param {ReturnType<typeof openChat>} chat
 */
function recordedHook(chat) {
  const thread = chat.hook();
  declareAvailable(Object.keys(thread));
  return new Proxy(thread, { get: (target, name) => (markUsed(String(name)), target[name]) });
}

test("a conversation", async () => {
  const { thread_id: threadId } = await client.threads.create();
  const chat = openChat({ assistantId: "tool_chat", threadId, fetchStateHistory: true });

  await recordedHook(chat).submit(userInput("what is 1 + 2?"));
  await until("the sum is shown", () => chat.reply() === "The sum is 3");
  await chat.waitUntilIdle();
  await until("the history is loaded", () => recordedHook(chat).history.length > 0);

  const thread = recordedHook(chat);
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

test("two versions of a reply", async () => {
  const { thread_id: threadId } = await client.threads.create();
  await client.runs.wait(threadId, "chat", { input: userInput("hi") });
  const chat = openChat({ assistantId: "chat", threadId, fetchStateHistory: true });
  await until("the history is shown", () => chat.shown().length === 2);
  chat.regenerate();
  await until("two branches exist", () => chat.branches().length === 2);

  const [first] = chat.branches();
  recordedHook(chat).setBranch(first);
  await until("the first branch is shown", () => recordedHook(chat).branch === first);
});

test("an interrupt", async () => {
  const chat = openChat({ assistantId: "approve" });
  chat.send("go");
  await until("the interrupt is shown", () => chat.interrupt() !== null);
  await chat.waitUntilIdle();

  assert.deepEqual(recordedHook(chat).interrupt.value, { question: "May I?" });
  assert.equal(recordedHook(chat).interrupts.length, 1);
});

test("joining a run and stopping another", async () => {
  const { thread_id: threadId } = await client.threads.create();
  const options = { streamMode: ["values", "messages-tuple"], streamResumable: true };
  const { run_id } = await client.runs.create(threadId, "slow_chat", { input: userInput("hi"), ...options });
  const chat = openChat({ assistantId: "slow_chat", threadId });
  void recordedHook(chat).joinStream(run_id);
  await chat.waitForWords(60);
  await chat.waitUntilIdle();

  chat.send("more");
  await until("the reply starts", () => chat.isBusy() && chat.shown().length > 3);
  void recordedHook(chat).stop();
  await chat.waitUntilIdle();
});

test("a graph without subagents", async () => {
  const chat = openChat({ assistantId: "chat" });
  await chat.waitUntilIdle();
  const thread = recordedHook(chat);

  assert.equal(thread.subagents.size, 0);
  assert.deepEqual(thread.activeSubagents, []);
  assert.equal(thread.getSubagent("unknown"), undefined);
  assert.deepEqual(thread.getSubagentsByType("unknown"), []);
  assert.deepEqual(thread.getSubagentsByMessage("unknown"), []);
  if ("toolProgress" in thread) assert.deepEqual(thread.toolProgress, []);
});

test("switching threads", async () => {
  const { thread_id: threadId } = await client.threads.create();
  await client.runs.wait(threadId, "chat", { input: userInput("hi") });
  const chat = openChat({ assistantId: "chat", fetchStateHistory: true });
  await chat.waitUntilIdle();
  if (!("switchThread" in recordedHook(chat))) return;

  recordedHook(chat).switchThread(threadId);
  await until("its history is shown", () => chat.shown().length === 2);
});
