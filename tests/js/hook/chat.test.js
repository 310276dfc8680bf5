import assert from "node:assert/strict";
import { afterEach, test } from "node:test";

import { longAnswer } from "../support/answers.js";
import { closeAll, openChat } from "../support/chat.js";
import { client, says } from "../support/sdk.js";
import { until } from "../support/until.js";

afterEach(closeAll);

test("a first message makes a thread, and the answer grows word by word", async () => {
  /** @type {string[]} */
  const threads = [];
  const chat = openChat({ assistantId: "slow_chat", onThreadId: (/** @type {string} */ id) => threads.push(id) });

  chat.say("hi");
  await chat.showsWords(3);
  assert.ok(chat.busy());
  await chat.isDone();

  assert.deepEqual(chat.shown(), [
    { type: "human", text: "hi" },
    { type: "ai", text: longAnswer },
  ]);
  assert.equal(threads.length, 1);
  const { values } = await client.threads.getState(threads[0]);
  assert.equal(values.messages.at(-1).content, longAnswer);
  const lengths = chat.everShown.map((shown) => shown[1]?.text.length ?? 0);
  assert.ok(new Set(lengths).size > 20, "the answer did not come in pieces");
  assert.deepEqual(lengths, lengths.toSorted((a, b) => a - b), "the answer did not only grow");
});

test("a thread that exists is shown as it is, and goes on", async () => {
  const { thread_id: threadId } = await client.threads.create();
  await client.runs.wait(threadId, "chat", { input: says("before") });
  const chat = openChat({ assistantId: "chat", threadId, fetchStateHistory: true });
  await until("the past is shown", () => chat.shown().length === 2);

  chat.say("again");
  await until("the new answer is shown", () => chat.shown().length === 4);
  await chat.isDone();

  assert.deepEqual(
    chat.shown().map((message) => message.text),
    ["before", "Hello from the model", "again", "Hello from the model"],
  );
});

test("an answer can be made anew, and both versions are kept as branches", async () => {
  const { thread_id: threadId } = await client.threads.create();
  await client.runs.wait(threadId, "chat", { input: says("hi") });
  const chat = openChat({ assistantId: "chat", threadId, fetchStateHistory: true });
  await until("the past is shown", () => chat.shown().length === 2);

  chat.again();
  await until("there are two runs", async () => (await client.runs.list(threadId)).length === 2);
  await until("there are two branches", () => chat.branches().length === 2);

  assert.deepEqual(chat.shown(), [
    { type: "human", text: "hi" },
    { type: "ai", text: "Hello from the model" },
  ]);
});

test("a tool's call and its result appear once each", async () => {
  const chat = openChat({ assistantId: "tool_chat" });

  chat.say("what is 1 + 2?");
  await until("the sum is told", () => chat.answer() === "The sum is 3");
  await chat.isDone();

  assert.deepEqual(
    chat.shown().map((message) => message.type),
    ["human", "ai", "tool", "ai"],
  );
});

test("a graph that fails shows why", async () => {
  const chat = openChat({ assistantId: "fails" });

  chat.say("hi");

  await until("the error is shown", () => chat.alert()?.includes("boom!"));
  await chat.isDone();
});
