import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";

import { apiUrl, client, sdk, userInput } from "../support/sdk.js";

/** Whether the SDK is of the current line, which supports more methods. 2.0.0 is older. */
const current = sdk === "langgraph-sdk-1";

/** @param {{ values: any }} thread */
const texts = (thread) => thread.values.messages.map((/** @type {any} */ message) => message.content);

/** @param {string} threadId */
const ttlOf = async (threadId) => (await (await fetch(`${apiUrl}/threads/${threadId}?include=ttl`)).json()).ttl;

test("a copy has the state of its source and is independent of it", async () => {
  const { thread_id } = await client.threads.create({ metadata: { topic: "looms" } });
  await client.runs.wait(thread_id, "chat", { input: userInput("hi") });

  const copy = await client.threads.copy(thread_id);
  await client.runs.wait(copy.thread_id, "chat", { input: userInput("again") });

  assert.equal(copy.metadata.topic, "looms");
  assert.deepEqual(texts(copy), ["hi", "Hello from the model"]);
  assert.equal(texts(await client.threads.get(copy.thread_id)).length, 4);
  assert.equal(texts(await client.threads.get(thread_id)).length, 2);
});

test("an unknown thread cannot be copied", async () => {
  await assert.rejects(client.threads.copy(randomUUID()), { status: 404 });
});

test("a thread can be created with supersteps", async () => {
  const messages = [{ type: "human", content: "May I?" }];
  const thread = await client.threads.create({
    graphId: "approve",
    supersteps: [
      { updates: [{ values: { messages }, asNode: "__start__" }] },
      { updates: [{ values: { answer: "yes" }, asNode: "ask" }] },
    ],
  });

  assert.equal(thread.metadata.graph_id, "approve");
  assert.equal(thread.values.answer, "yes");
  assert.deepEqual((await client.threads.getState(thread.thread_id)).next, ["model"]);
  const done = await client.runs.wait(thread.thread_id, "approve", { input: null });
  assert.deepEqual(texts({ values: done }), ["May I?", "Done as you said"]);
});

test("supersteps of an unknown node are rejected", async () => {
  const thread = { graphId: "approve", supersteps: [{ updates: [{ values: {}, asNode: "unknown" }] }] };
  await assert.rejects(client.threads.create(thread), { status: 400 });
});

test("a thread returns its TTL", async () => {
  const { thread_id } = await client.threads.create({ ttl: 60 });
  assert.equal((await ttlOf(thread_id)).ttl_minutes, 60);
  assert.equal((await ttlOf(thread_id)).strategy, "delete");

  await client.threads.update(thread_id, { ttl: { ttl: 5, strategy: "keep_latest" } });
  assert.equal((await ttlOf(thread_id)).strategy, "keep_latest");
  await assert.rejects(client.threads.update(thread_id, { ttl: -1 }), { status: 422 });
});

test("patching the state updates the metadata of the thread", async () => {
  const { thread_id } = await client.threads.create({ metadata: { a: 1, b: 1 } });

  await client.threads.patchState(thread_id, { b: 2 });
  await client.threads.patchState({ configurable: { thread_id } }, { c: 3 });

  assert.deepEqual((await client.threads.get(thread_id)).metadata, { a: 1, b: 2, c: 3 });
  await assert.rejects(client.threads.patchState(randomUUID(), {}), { status: 404 });
});

test("a state contains its subgraphs if requested", async () => {
  const { thread_id } = await client.threads.create();
  await client.runs.wait(thread_id, "nested_chat", { input: userInput("hi") });
  const [, earlier] = await client.threads.getHistory(thread_id);

  const without = await client.threads.getState(thread_id, earlier.checkpoint);
  const withSubgraphs = await client.threads.getState(thread_id, earlier.checkpoint, { subgraphs: true });

  assert.equal(without.tasks[0].state, null);
  assert.deepEqual(texts(/** @type {any} */ (withSubgraphs.tasks[0].state)), ["hi", "Hello from within"]);
});

test("the history is filtered by metadata", async () => {
  const { thread_id } = await client.threads.create();
  await client.runs.wait(thread_id, "chat", { input: userInput("hi") });

  const inputs = await client.threads.getHistory(thread_id, { metadata: { source: "input" } });

  assert.deepEqual(inputs.map((state) => state.metadata?.source), ["input"]);
});

if (current) {
  test("threads are pruned", async () => {
    const threadIds = [await client.threads.create(), await client.threads.create()].map((thread) => thread.thread_id);
    await client.runs.wait(threadIds[0], "chat", { input: userInput("hi") });

    assert.deepEqual(await client.threads.prune([threadIds[0]], { strategy: "keep_latest" }), { pruned_count: 1 });
    assert.equal((await client.threads.getHistory(threadIds[0])).length, 1);
    assert.deepEqual(await client.threads.prune([...threadIds, randomUUID()]), { pruned_count: 2 });
    await assert.rejects(client.threads.get(threadIds[0]), { status: 404 });
    await assert.rejects(client.threads.prune(["nonsense"]), { status: 422 });
  });

  test("a search extracts values by path", async () => {
    const batch = randomUUID();
    const { thread_id } = await client.threads.create({ metadata: { batch } });
    await client.runs.wait(thread_id, "chat", { input: userInput("hi") });

    const extract = { last: "values.messages[-1].content", nothing: "values.messages[9]" };
    const [found] = await client.threads.search({ metadata: { batch }, select: ["thread_id"], extract });

    assert.deepEqual(found, { thread_id, extracted: { last: "Hello from the model", nothing: null } });
    await assert.rejects(client.threads.search({ extract: { a: "nope" } }), { status: 422 });
  });

  test("a thread is fetched with its TTL, and updated without a response body", async () => {
    const { thread_id } = await client.threads.create({ ttl: 5 });

    assert.equal(await client.threads.update(thread_id, { metadata: { a: 1 }, returnMinimal: true }), undefined);
    const read = await client.threads.get(thread_id, { include: ["ttl"] });

    assert.deepEqual(read.metadata, { a: 1 });
    assert.equal(/** @type {any} */ (read).ttl.ttl_minutes, 5);
    await assert.rejects(client.threads.get(thread_id, { include: ["nope"] }), { status: 422 });
  });
}
