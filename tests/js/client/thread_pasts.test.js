import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";

import { apiUrl, client, says, sdk } from "../support/sdk.js";

/** What only the current line of the SDK knows: 2.0.0 is an older one. */
const current = sdk === "langgraph-sdk-1";

/** @param {{ values: any }} thread */
const texts = (thread) => thread.values.messages.map((/** @type {any} */ message) => message.content);

/** @param {string} threadId */
const ttlOf = async (threadId) => (await (await fetch(`${apiUrl}/threads/${threadId}?include=ttl`)).json()).ttl;

test("a copy has the state of its source and goes its own way", async () => {
  const { thread_id } = await client.threads.create({ metadata: { topic: "looms" } });
  await client.runs.wait(thread_id, "chat", { input: says("hi") });

  const copy = await client.threads.copy(thread_id);
  await client.runs.wait(copy.thread_id, "chat", { input: says("again") });

  assert.equal(copy.metadata.topic, "looms");
  assert.deepEqual(texts(copy), ["hi", "Hello from the model"]);
  assert.equal(texts(await client.threads.get(copy.thread_id)).length, 4);
  assert.equal(texts(await client.threads.get(thread_id)).length, 2);
});

test("what is not there cannot be copied", async () => {
  await assert.rejects(client.threads.copy(randomUUID()), { status: 404 });
});

test("a thread begins with the state that supersteps lead to", async () => {
  const said = [{ type: "human", content: "May I?" }];
  const thread = await client.threads.create({
    graphId: "approve",
    supersteps: [
      { updates: [{ values: { messages: said }, asNode: "__start__" }] },
      { updates: [{ values: { answer: "yes" }, asNode: "ask" }] },
    ],
  });

  assert.equal(thread.metadata.graph_id, "approve");
  assert.equal(thread.values.answer, "yes");
  assert.deepEqual((await client.threads.getState(thread.thread_id)).next, ["model"]);
  const done = await client.runs.wait(thread.thread_id, "approve", { input: null });
  assert.deepEqual(texts({ values: done }), ["May I?", "Done as you said"]);
});

test("supersteps of a node that does not exist are refused", async () => {
  const asked = { graphId: "approve", supersteps: [{ updates: [{ values: {}, asNode: "nobody" }] }] };
  await assert.rejects(client.threads.create(asked), { status: 400 });
});

test("a thread says how long it is kept", async () => {
  const { thread_id } = await client.threads.create({ ttl: 60 });
  assert.equal((await ttlOf(thread_id)).ttl_minutes, 60);
  assert.equal((await ttlOf(thread_id)).strategy, "delete");

  await client.threads.update(thread_id, { ttl: { ttl: 5, strategy: "keep_latest" } });
  assert.equal((await ttlOf(thread_id)).strategy, "keep_latest");
  await assert.rejects(client.threads.update(thread_id, { ttl: -1 }), { status: 422 });
});

test("patching the state patches the metadata of the thread", async () => {
  const { thread_id } = await client.threads.create({ metadata: { a: 1, b: 1 } });

  await client.threads.patchState(thread_id, { b: 2 });
  await client.threads.patchState({ configurable: { thread_id } }, { c: 3 });

  assert.deepEqual((await client.threads.get(thread_id)).metadata, { a: 1, b: 2, c: 3 });
  await assert.rejects(client.threads.patchState(randomUUID(), {}), { status: 404 });
});

test("a state shows its subgraphs when asked to", async () => {
  const { thread_id } = await client.threads.create();
  await client.runs.wait(thread_id, "nested_chat", { input: says("hi") });
  const [, within] = await client.threads.getHistory(thread_id);

  const outside = await client.threads.getState(thread_id, within.checkpoint);
  const inside = await client.threads.getState(thread_id, within.checkpoint, { subgraphs: true });

  assert.equal(outside.tasks[0].state, null);
  assert.deepEqual(texts(/** @type {any} */ (inside.tasks[0].state)), ["hi", "Hello from within"]);
});

test("the history is filtered by metadata", async () => {
  const { thread_id } = await client.threads.create();
  await client.runs.wait(thread_id, "chat", { input: says("hi") });

  const inputs = await client.threads.getHistory(thread_id, { metadata: { source: "input" } });

  assert.deepEqual(inputs.map((state) => state.metadata?.source), ["input"]);
});

if (current) {
  test("threads are pruned", async () => {
    const made = [await client.threads.create(), await client.threads.create()].map((thread) => thread.thread_id);
    await client.runs.wait(made[0], "chat", { input: says("hi") });

    assert.deepEqual(await client.threads.prune([made[0]], { strategy: "keep_latest" }), { pruned_count: 1 });
    assert.equal((await client.threads.getHistory(made[0])).length, 1);
    assert.deepEqual(await client.threads.prune([...made, randomUUID()]), { pruned_count: 2 });
    await assert.rejects(client.threads.get(made[0]), { status: 404 });
    await assert.rejects(client.threads.prune(["nonsense"]), { status: 422 });
  });

  test("a search takes out what lies at a path", async () => {
    const batch = randomUUID();
    const { thread_id } = await client.threads.create({ metadata: { batch } });
    await client.runs.wait(thread_id, "chat", { input: says("hi") });

    const extract = { last: "values.messages[-1].content", nothing: "values.messages[9]" };
    const [found] = await client.threads.search({ metadata: { batch }, select: ["thread_id"], extract });

    assert.deepEqual(found, { thread_id, extracted: { last: "Hello from the model", nothing: null } });
    await assert.rejects(client.threads.search({ extract: { a: "nope" } }), { status: 422 });
  });

  test("a thread is read with its ttl, and updated without an answer", async () => {
    const { thread_id } = await client.threads.create({ ttl: 5 });

    assert.equal(await client.threads.update(thread_id, { metadata: { a: 1 }, returnMinimal: true }), undefined);
    const read = await client.threads.get(thread_id, { include: ["ttl"] });

    assert.deepEqual(read.metadata, { a: 1 });
    assert.equal(/** @type {any} */ (read).ttl.ttl_minutes, 5);
    await assert.rejects(client.threads.get(thread_id, { include: ["nope"] }), { status: 422 });
  });
}
