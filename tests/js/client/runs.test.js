import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";

import { all, client, says } from "../support/sdk.js";
import { until } from "../support/until.js";

const newThread = async () => (await client.threads.create()).thread_id;

/**
 * @param {string} threadId
 * @param {string} runId
 * @param {string} status
 */
const reaches = (threadId, runId, status) =>
  until(`the run is ${status}`, async () => (await client.runs.get(threadId, runId)).status === status);

/** @param {any} values */
const texts = (values) => values.messages.map((/** @type {any} */ message) => message.content);

test("waiting for a run gives its final values", async () => {
  const values = await client.runs.wait(await newThread(), "chat", { input: says("hi") });

  assert.deepEqual(texts(values), ["hi", "Hello from the model"]);
});

test("a run in the background is created, read, listed, joined and deleted", async () => {
  const threadId = await newThread();
  const created = await client.runs.create(threadId, "chat", { input: says("hi"), metadata: { purpose: "test" } });
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

test("a list of runs gives only the fields that were asked for", async () => {
  const threadId = await newThread();
  const { run_id } = await client.runs.create(threadId, "chat", { input: says("hi") });
  await client.runs.join(threadId, run_id);

  const listed = await client.runs.list(threadId, { limit: 5, select: ["run_id", "status"] });

  assert.deepEqual(listed, [{ run_id, status: "success" }]);
});

test("a run tells its id before its first event", async () => {
  const threadId = await newThread();
  /** @type {any} */
  let told;
  const stream = client.runs.stream(threadId, "chat", {
    input: says("hi"),
    onRunCreated: (/** @type {any} */ run) => (told = run),
  });

  const [first] = await all(stream);

  assert.deepEqual(first.data, { run_id: told.run_id, attempt: 1 });
  assert.equal(told.thread_id, threadId);
});

test("a run makes its thread when it is told to", async () => {
  const threadId = randomUUID();

  await client.runs.wait(threadId, "chat", { input: says("hi"), ifNotExists: "create" });

  assert.equal((await client.threads.get(threadId)).thread_id, threadId);
});

test("a run that is cancelled is interrupted, and its thread is free again", async () => {
  const threadId = await newThread();
  const { run_id } = await client.runs.create(threadId, "waits", { input: says("hi") });
  await reaches(threadId, run_id, "running");

  await client.runs.cancel(threadId, run_id, true);

  assert.equal((await client.runs.get(threadId, run_id)).status, "interrupted");
  assert.deepEqual(texts(await client.runs.wait(threadId, "chat", { input: null })).slice(0, 1), ["hi"]);
});

test("a cancel that does not wait takes effect all the same", async () => {
  const threadId = await newThread();
  const { run_id } = await client.runs.create(threadId, "waits", { input: says("hi") });
  await reaches(threadId, run_id, "running");

  await client.runs.cancel(threadId, run_id);

  await reaches(threadId, run_id, "interrupted");
});

test("a run that is rolled back was never there", async () => {
  const threadId = await newThread();
  const { run_id } = await client.runs.create(threadId, "waits", { input: says("hi") });
  await reaches(threadId, run_id, "running");

  await client.runs.cancel(threadId, run_id, true, "rollback");

  assert.deepEqual(await client.runs.list(threadId), []);
  assert.deepEqual((await client.threads.getState(threadId)).values, {});
});

test("a second run waits for the first, unless it asks to be refused", async () => {
  const threadId = await newThread();
  const first = await client.runs.create(threadId, "waits", { input: says("hi") });
  await reaches(threadId, first.run_id, "running");

  const second = await client.runs.create(threadId, "chat", { input: says("me too") });
  await assert.rejects(client.runs.create(threadId, "chat", { multitaskStrategy: "reject" }), { status: 409 });
  assert.equal((await client.runs.get(threadId, second.run_id)).status, "pending");

  await client.runs.cancel(threadId, first.run_id, true);
  await client.runs.join(threadId, second.run_id);
  assert.equal((await client.runs.get(threadId, second.run_id)).status, "success");
});

test("an interrupt is answered with a command", async () => {
  const threadId = await newThread();

  const paused = await client.runs.wait(threadId, "approve", { input: says("go") });
  const resumed = await client.runs.wait(threadId, "approve", { command: { resume: "yes" } });

  assert.deepEqual(paused.__interrupt__[0].value, { question: "May I?" });
  assert.equal(resumed.answer, "yes");
  assert.equal((await client.threads.get(threadId)).status, "idle");
});
