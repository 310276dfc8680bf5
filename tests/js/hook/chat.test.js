import assert from "node:assert/strict";
import { afterEach, test } from "node:test";

import { longReply } from "../support/replies.js";
import { closeAll, openChat } from "../support/chat.js";
import { client, userInput } from "../support/sdk.js";
import { until } from "../support/until.js";

afterEach(closeAll);

test("the first message creates a thread, and the reply grows word by word", async () => {
  /** @type {string[]} */
  const threads = [];
  const chat = openChat({ assistantId: "slow_chat", onThreadId: (/** @type {string} */ id) => threads.push(id) });

  chat.send("hi");
  await chat.waitForWords(3);
  assert.ok(chat.isBusy());
  await chat.waitUntilIdle();

  assert.deepEqual(chat.shown(), [
    { type: "human", text: "hi" },
    { type: "ai", text: longReply },
  ]);
  assert.equal(threads.length, 1);
  const { values } = await client.threads.getState(threads[0]);
  assert.equal(values.messages.at(-1).content, longReply);
  const lengths = chat.everShown.map((shown) => shown[1]?.text.length ?? 0);
  assert.ok(new Set(lengths).size > 20, "the reply was not streamed");
  assert.deepEqual(lengths, lengths.toSorted((a, b) => a - b), "the reply shrank");
});

test("an existing thread is shown and can be continued", async () => {
  const { thread_id: threadId } = await client.threads.create();
  await client.runs.wait(threadId, "chat", { input: userInput("before") });
  const chat = openChat({ assistantId: "chat", threadId, fetchStateHistory: true });
  await until("the history is shown", () => chat.shown().length === 2);

  chat.send("again");
  await until("the new reply is shown", () => chat.shown().length === 4);
  await chat.waitUntilIdle();

  assert.deepEqual(
    chat.shown().map((message) => message.text),
    ["before", "Hello from the model", "again", "Hello from the model"],
  );
});

test("a reply can be regenerated, and both versions are kept as branches", async () => {
  const { thread_id: threadId } = await client.threads.create();
  await client.runs.wait(threadId, "chat", { input: userInput("hi") });
  const chat = openChat({ assistantId: "chat", threadId, fetchStateHistory: true });
  await until("the history is shown", () => chat.shown().length === 2);

  chat.regenerate();
  await until("two runs exist", async () => (await client.runs.list(threadId)).length === 2);
  await until("two branches exist", () => chat.branches().length === 2);

  assert.deepEqual(chat.shown(), [
    { type: "human", text: "hi" },
    { type: "ai", text: "Hello from the model" },
  ]);
});

test("a tool call and its result appear once each", async () => {
  const chat = openChat({ assistantId: "tool_chat" });

  chat.send("what is 1 + 2?");
  await until("the sum is shown", () => chat.reply() === "The sum is 3");
  await chat.waitUntilIdle();

  assert.deepEqual(
    chat.shown().map((message) => message.type),
    ["human", "ai", "tool", "ai"],
  );
});

test("the error of a failing graph is shown", async () => {
  const chat = openChat({ assistantId: "fails" });

  chat.send("hi");

  await until("the error is shown", () => chat.alert()?.includes("boom!"));
  await chat.waitUntilIdle();
});
