import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";

import { client, userInput } from "../support/sdk.js";

test("a thread is created, fetched and deleted", async () => {
  const created = await client.threads.create({ metadata: { user: "ada" } });
  assert.equal(created.status, "idle");
  assert.deepEqual(created.metadata, { user: "ada" });

  assert.deepEqual(await client.threads.get(created.thread_id), created);

  await client.threads.delete(created.thread_id);
  await assert.rejects(client.threads.get(created.thread_id), { status: 404 });
});

test("a thread has the id that the client chose, and is created once", async () => {
  const threadId = randomUUID();
  const first = await client.threads.create({ threadId });
  const again = await client.threads.create({ threadId, ifExists: "do_nothing" });

  assert.equal(first.thread_id, threadId);
  assert.deepEqual(again, first);
  await assert.rejects(client.threads.create({ threadId, ifExists: "raise" }), { status: 409 });
});

test("an update merges metadata", async () => {
  const { thread_id } = await client.threads.create({ metadata: { user: "ada", topic: "looms" } });

  await client.threads.update(thread_id, { metadata: { topic: "engines" } });

  const { metadata } = await client.threads.get(thread_id);
  assert.deepEqual(metadata, { user: "ada", topic: "engines" });
});

test("threads are searched and counted by metadata", async () => {
  const batch = randomUUID();
  const created = [];
  for (const topic of ["a", "b", "c"]) created.push(await client.threads.create({ metadata: { batch, topic } }));

  const found = await client.threads.search({ metadata: { batch }, sortBy: "created_at", sortOrder: "asc" });
  const [middle] = await client.threads.search({ metadata: { batch, topic: "b" } });
  const page = await client.threads.search({ metadata: { batch }, limit: 1, offset: 1, sortOrder: "asc" });

  assert.deepEqual(found.map((thread) => thread.thread_id), created.map((thread) => thread.thread_id));
  assert.equal(middle.thread_id, created[1].thread_id);
  assert.equal(page[0].thread_id, created[1].thread_id);
  assert.equal(await client.threads.count({ metadata: { batch } }), 3);
});

test("a search returns only the selected fields", async () => {
  const batch = randomUUID();
  const { thread_id } = await client.threads.create({ metadata: { batch } });

  const found = await client.threads.search({ metadata: { batch }, select: ["thread_id", "status"] });

  assert.deepEqual(found, [{ thread_id, status: "idle" }]);
});

test("interrupted threads are found by their status", async () => {
  const batch = randomUUID();
  const { thread_id } = await client.threads.create({ metadata: { batch } });
  await client.runs.wait(thread_id, "approve", { input: userInput("go") });

  const found = await client.threads.search({ metadata: { batch }, status: "interrupted" });

  assert.deepEqual(found.map((thread) => thread.thread_id), [thread_id]);
  assert.deepEqual(Object.values(found[0].interrupts)[0][0].value, { question: "May I?" });
});
