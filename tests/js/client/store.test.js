import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";

import { client, says } from "../support/sdk.js";

const keys = (found) => found.items.map((item) => item.key);

test("an item is put, got and deleted", async () => {
  const mark = randomUUID();
  await client.store.putItem(["users", mark], "k", { likes: ["tea"], none: null });

  const item = await client.store.getItem(["users", mark], "k");
  assert.deepEqual(item.namespace, ["users", mark]);
  assert.equal(item.key, "k");
  assert.deepEqual(item.value, { likes: ["tea"], none: null });
  assert.equal(item.createdAt, item.created_at);
  assert.ok(Date.parse(item.updatedAt) >= Date.parse(item.createdAt));

  await client.store.deleteItem(["users", mark], "k");
  assert.equal(await client.store.getItem(["users", mark], "k"), null);
  await client.store.deleteItem(["users", mark], "k");
});

test("an item may have a time to live and be read without refreshing it", async () => {
  const mark = randomUUID();
  await client.store.putItem([mark], "short", {}, { ttl: 10 });
  await client.store.putItem([mark], "for ever", {}, { ttl: null, index: null });
  await client.store.putItem([mark], "unseen", {}, { index: false });
  await client.store.putItem([mark], "indexed", { text: "tea" }, { index: ["text"] });

  for (const refreshTtl of [true, false, null]) {
    assert.equal((await client.store.getItem([mark], "short", { refreshTtl })).key, "short");
    assert.equal((await client.store.searchItems([mark], { refreshTtl })).items.length, 4);
  }
  await assert.rejects(client.store.putItem([mark], "k", {}, { ttl: -1 }), { status: 422 });
});

test("keys with quotes, dots and signs of their own are keys", async () => {
  const mark = randomUUID();
  for (const key of ["a.b", "a&b=c?#", "%2e", "'\"", "ключ 🔑", " ", ""]) {
    await client.store.putItem([mark, "labels & 'more'"], key, { key });
    assert.deepEqual((await client.store.getItem([mark, "labels & 'more'"], key)).value, { key });
  }
});

test("items are searched by prefix, filter and page", async () => {
  const mark = randomUUID();
  for (const n of [0, 1, 2, 3]) await client.store.putItem([mark, n < 2 ? "a" : "b"], `k${n}`, { n, even: n % 2 === 0 });

  assert.deepEqual(keys(await client.store.searchItems([mark])), ["k3", "k2", "k1", "k0"]);
  assert.deepEqual(keys(await client.store.searchItems([mark, "a"])), ["k1", "k0"]);
  assert.deepEqual(keys(await client.store.searchItems([mark], { limit: 1, offset: 2 })), ["k1"]);
  assert.deepEqual(keys(await client.store.searchItems([mark], { filter: { even: true } })), ["k2", "k0"]);
  assert.deepEqual(keys(await client.store.searchItems([mark], { filter: { n: { $gt: 1 } } })), ["k3", "k2"]);

  const [item] = (await client.store.searchItems([mark], { query: "anything", limit: 1 })).items;
  assert.equal(item.score, null);
  assert.equal(item.createdAt, item.created_at);
});

test("namespaces are listed by prefix, suffix and depth", async () => {
  const mark = randomUUID();
  const there = [[mark, "a", "x"], [mark, "a", "y"], [mark, "b", "x"]];
  for (const namespace of there) await client.store.putItem(namespace, "k", {});

  const listed = async (options) => (await client.store.listNamespaces(options)).namespaces;
  assert.deepEqual(await listed({ prefix: [mark] }), there);
  assert.deepEqual(await listed({ prefix: [mark], suffix: ["x"] }), [there[0], there[2]]);
  assert.deepEqual(await listed({ prefix: [mark, "*", "x"] }), [there[0], there[2]]);
  assert.deepEqual(await listed({ prefix: [mark], maxDepth: 2 }), [[mark, "a"], [mark, "b"]]);
  assert.deepEqual(await listed({ prefix: [mark], limit: 1, offset: 1 }), [there[1]]);
  assert.ok((await listed()).length <= 100);
});

test("what makes no sense is refused", async () => {
  await assert.rejects(client.store.putItem(["a.b"], "k", {}), /cannot contain periods/);
  await assert.rejects(client.store.putItem([""], "k", {}), { status: 422 });
  await assert.rejects(client.store.putItem([], "k", {}), { status: 400 });
  await assert.rejects(client.store.getItem(["a", ""], "k"), { status: 422 });
  await assert.rejects(client.store.deleteItem([""], "k"), { status: 422 });
  await assert.rejects(client.store.searchItems(["a.b"]), { status: 422 });
  await assert.rejects(client.store.searchItems(["a"], { filter: { n: { $in: [1] } } }), { status: 400 });
  await assert.rejects(client.store.listNamespaces({ prefix: ["a.b"] }), { status: 422 });
});

test("a graph and a client share the store", async () => {
  const mark = randomUUID();
  const { thread_id } = await client.threads.create();
  await client.runs.wait(thread_id, "remembers", { input: says(mark) });

  assert.deepEqual((await client.store.getItem(["heard"], mark)).value, { text: mark });
});
