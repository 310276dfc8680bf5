import assert from "node:assert/strict";
import { before, test } from "node:test";

import { client, userInput } from "../support/sdk.js";

/** @type {string} */
let threadId;

before(async () => {
  ({ thread_id: threadId } = await client.threads.create());
  await client.runs.wait(threadId, "chat", { input: userInput("hi") });
});

/** @param {{ values: any }} state */
const texts = (state) => (state.values.messages ?? []).map((/** @type {any} */ message) => message.content);

test("the state of a thread without runs is empty", async () => {
  const { thread_id } = await client.threads.create();

  const state = await client.threads.getState(thread_id);

  assert.deepEqual(state.values, {});
  assert.deepEqual(state.next, []);
});

test("the state contains the result of a run", async () => {
  const state = await client.threads.getState(threadId);

  assert.deepEqual(texts(state), ["hi", "Hello from the model"]);
  assert.deepEqual(state.next, []);
  assert.equal(state.checkpoint.thread_id, threadId);
});

test("the history starts with the newest state and ends with the input", async () => {
  const history = await client.threads.getHistory(threadId, { limit: 10 });

  assert.deepEqual(texts(history[0]), ["hi", "Hello from the model"]);
  assert.deepEqual(texts(history[1]), ["hi"]);
  assert.deepEqual(texts(history.at(-1)), []);
  assert.deepEqual(history[0].parent_checkpoint, history[1].checkpoint);
});

test("the history is limited, and continues before a checkpoint", async () => {
  const whole = await client.threads.getHistory(threadId, { limit: 10 });
  const [newest] = await client.threads.getHistory(threadId, { limit: 1 });
  const older = await client.threads.getHistory(threadId, { limit: 10, before: { configurable: newest.checkpoint } });

  assert.deepEqual([newest, ...older], whole);
});

test("the state at an earlier checkpoint is still available", async () => {
  const [, earlier] = await client.threads.getHistory(threadId, { limit: 2 });

  const byId = await client.threads.getState(threadId, earlier.checkpoint.checkpoint_id);
  const byCheckpoint = await client.threads.getState(threadId, earlier.checkpoint);

  assert.deepEqual(texts(byId), ["hi"]);
  assert.deepEqual(texts(byCheckpoint), ["hi"]);
});

test("an update moves the thread to a new checkpoint", async () => {
  const { thread_id } = await client.threads.create();
  await client.runs.wait(thread_id, "chat", { input: userInput("hi") });

  const updated = await client.threads.updateState(thread_id, { values: { answer: 42 }, asNode: "model" });

  const state = await client.threads.getState(thread_id);
  assert.equal(state.values.answer, 42);
  assert.equal(state.checkpoint.checkpoint_id, updated.checkpoint.checkpoint_id);
  assert.equal((await client.threads.get(thread_id)).values.answer, 42);
});

test("a thread forks at an earlier checkpoint", async () => {
  const { thread_id } = await client.threads.create();
  await client.runs.wait(thread_id, "chat", { input: userInput("first") });
  const [, beforeAnswer] = await client.threads.getHistory(thread_id, { limit: 2 });

  await client.runs.wait(thread_id, "chat", { checkpoint: beforeAnswer.checkpoint });

  const [head, fork] = await client.threads.getHistory(thread_id, { limit: 2 });
  assert.deepEqual(texts(head), ["first", "Hello from the model"]);
  assert.deepEqual(head.parent_checkpoint, fork.checkpoint);
  assert.deepEqual(fork.parent_checkpoint, beforeAnswer.checkpoint);
});
