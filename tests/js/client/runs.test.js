import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";

import { client, collect, userInput } from "../support/sdk.js";
import { until } from "../support/until.js";

const newThread = async () => (await client.threads.create()).thread_id;

/**
 * @param {string} threadId
 * @param {string} runId
 * @param {string} status
 */
const waitForStatus = (threadId, runId, status) =>
  until(`the run is ${status}`, async () => (await client.runs.get(threadId, runId)).status === status);

/** @param {any} values */
const texts = (values) => values.messages.map((/** @type {any} */ message) => message.content);

test("waiting for a run returns its final values", async () => {
  const values = await client.runs.wait(await newThread(), "chat", { input: userInput("hi") });

  assert.deepEqual(texts(values), ["hi", "Hello from the model"]);
});

test("a background run is created, fetched, listed, joined and deleted", async () => {
  const threadId = await newThread();
  const created = await client.runs.create(threadId, "chat", { input: userInput("hi"), metadata: { purpose: "test" } });
  assert.equal(created.thread_id, threadId);
  assert.equal(created.metadata.purpose, "test");

  const values = await client.runs.join(threadId, created.run_id);
  assert.deepEqual(texts(values), ["hi", "Hello from the model"]);

  const ended = await client.runs.get(threadId, created.run_id);
  assert.equal(ended.status, "success");
  assert.deepEqual(await client.runs.list(threadId), [ended]);
  assert.deepEqual(await client.runs.list(threadId, { status: "error" }), []);

  await client.runs.delete(threadId, created.run_id);
  await assert.rejects(client.runs.get(threadId, created.run_id), { status: 404 });
});

test("a list of runs contains only the selected fields", async () => {
  const threadId = await newThread();
  const { run_id } = await client.runs.create(threadId, "chat", { input: userInput("hi") });
  await client.runs.join(threadId, run_id);

  const listed = await client.runs.list(threadId, { limit: 5, select: ["run_id", "status"] });

  assert.deepEqual(listed, [{ run_id, status: "success" }]);
});

test("the run id is available before the first event", async () => {
  const threadId = await newThread();
  /** @type {any} */
  let created;
  const stream = client.runs.stream(threadId, "chat", {
    input: userInput("hi"),
    onRunCreated: (/** @type {any} */ run) => (created = run),
  });

  const [first] = await collect(stream);

  assert.deepEqual(first.data, { run_id: created.run_id, attempt: 1 });
  assert.equal(created.thread_id, threadId);
});

test("a run creates its thread if requested", async () => {
  const threadId = randomUUID();

  await client.runs.wait(threadId, "chat", { input: userInput("hi"), ifNotExists: "create" });

  assert.equal((await client.threads.get(threadId)).thread_id, threadId);
});

test("a cancelled run is interrupted, and its thread accepts runs again", async () => {
  const threadId = await newThread();
  const { run_id } = await client.runs.create(threadId, "waits", { input: userInput("hi") });
  await waitForStatus(threadId, run_id, "running");

  await client.runs.cancel(threadId, run_id, true);

  assert.equal((await client.runs.get(threadId, run_id)).status, "interrupted");
  assert.deepEqual(texts(await client.runs.wait(threadId, "chat", { input: null })).slice(0, 1), ["hi"]);
});

test("a cancel without waiting still takes effect", async () => {
  const threadId = await newThread();
  const { run_id } = await client.runs.create(threadId, "waits", { input: userInput("hi") });
  await waitForStatus(threadId, run_id, "running");

  await client.runs.cancel(threadId, run_id);

  await waitForStatus(threadId, run_id, "interrupted");
});

test("a rollback leaves no trace of the run", async () => {
  const threadId = await newThread();
  const { run_id } = await client.runs.create(threadId, "waits", { input: userInput("hi") });
  await waitForStatus(threadId, run_id, "running");

  await client.runs.cancel(threadId, run_id, true, "rollback");

  assert.deepEqual(await client.runs.list(threadId), []);
  assert.deepEqual((await client.threads.getState(threadId)).values, {});
});

test("a second run waits for the first unless its strategy is reject", async () => {
  const threadId = await newThread();
  const first = await client.runs.create(threadId, "waits", { input: userInput("hi") });
  await waitForStatus(threadId, first.run_id, "running");

  const second = await client.runs.create(threadId, "chat", { input: userInput("me too") });
  await assert.rejects(client.runs.create(threadId, "chat", { multitaskStrategy: "reject" }), { status: 409 });
  assert.equal((await client.runs.get(threadId, second.run_id)).status, "pending");

  await client.runs.cancel(threadId, first.run_id, true);
  await client.runs.join(threadId, second.run_id);
  assert.equal((await client.runs.get(threadId, second.run_id)).status, "success");
});

test("an interrupt is answered with a command", async () => {
  const threadId = await newThread();

  const paused = await client.runs.wait(threadId, "approve", { input: userInput("go") });
  const resumed = await client.runs.wait(threadId, "approve", { command: { resume: "yes" } });

  assert.deepEqual(paused.__interrupt__[0].value, { question: "May I?" });
  assert.equal(resumed.answer, "yes");
  assert.equal((await client.threads.get(threadId)).status, "idle");
});
