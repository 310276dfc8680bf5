import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";

import { client, userInput } from "../support/sdk.js";

const keys = (found) => found.items.map((item) => item.key);

test("an item is put, fetched and deleted", async () => {
  const token = randomUUID();
  await client.store.putItem(["users", token], "k", { likes: ["tea"], none: null });

  const item = await client.store.getItem(["users", token], "k");
  assert.deepEqual(item.namespace, ["users", token]);
  assert.equal(item.key, "k");
  assert.deepEqual(item.value, { likes: ["tea"], none: null });
  assert.equal(item.createdAt, item.created_at);
  assert.ok(Date.parse(item.updatedAt) >= Date.parse(item.createdAt));

  await client.store.deleteItem(["users", token], "k");
  assert.equal(await client.store.getItem(["users", token], "k"), null);
  await client.store.deleteItem(["users", token], "k");
});

test("an item may have a TTL and be read without refreshing it", async () => {
  const token = randomUUID();
  await client.store.putItem([token], "short", {}, { ttl: 10 });
  await client.store.putItem([token], "forever", {}, { ttl: null, index: null });
  await client.store.putItem([token], "unseen", {}, { index: false });
  await client.store.putItem([token], "indexed", { text: "tea" }, { index: ["text"] });

  for (const refreshTtl of [true, false, null]) {
    assert.equal((await client.store.getItem([token], "short", { refreshTtl })).key, "short");
    assert.equal((await client.store.searchItems([token], { refreshTtl })).items.length, 4);
  }
  await assert.rejects(client.store.putItem([token], "k", {}, { ttl: -1 }), { status: 422 });
});

test("keys may contain quotes, dots and other special characters", async () => {
  const token = randomUUID();
  for (const key of ["a.b", "a&b=c?#", "%2e", "'\"", "ключ 🔑", " ", ""]) {
    await client.store.putItem([token, "labels & 'more'"], key, { key });
    assert.deepEqual((await client.store.getItem([token, "labels & 'more'"], key)).value, { key });
  }
});

test("items are searched by prefix and filter, and paginated", async () => {
  const token = randomUUID();
  for (const n of [0, 1, 2, 3]) await client.store.putItem([token, n < 2 ? "a" : "b"], `k${n}`, { n, even: n % 2 === 0 });

  assert.deepEqual(keys(await client.store.searchItems([token])), ["k3", "k2", "k1", "k0"]);
  assert.deepEqual(keys(await client.store.searchItems([token, "a"])), ["k1", "k0"]);
  assert.deepEqual(keys(await client.store.searchItems([token], { limit: 1, offset: 2 })), ["k1"]);
  assert.deepEqual(keys(await client.store.searchItems([token], { filter: { even: true } })), ["k2", "k0"]);
  assert.deepEqual(keys(await client.store.searchItems([token], { filter: { n: { $gt: 1 } } })), ["k3", "k2"]);

  const [item] = (await client.store.searchItems([token], { query: "anything", limit: 1 })).items;
  assert.equal(item.score, null);
  assert.equal(item.createdAt, item.created_at);
});

test("namespaces are listed by prefix, suffix and depth", async () => {
  const token = randomUUID();
  const namespaces = [[token, "a", "x"], [token, "a", "y"], [token, "b", "x"]];
  for (const namespace of namespaces) await client.store.putItem(namespace, "k", {});

  const listed = async (options) => (await client.store.listNamespaces(options)).namespaces;
  assert.deepEqual(await listed({ prefix: [token] }), namespaces);
  assert.deepEqual(await listed({ prefix: [token], suffix: ["x"] }), [namespaces[0], namespaces[2]]);
  assert.deepEqual(await listed({ prefix: [token, "*", "x"] }), [namespaces[0], namespaces[2]]);
  assert.deepEqual(await listed({ prefix: [token], maxDepth: 2 }), [[token, "a"], [token, "b"]]);
  assert.deepEqual(await listed({ prefix: [token], limit: 1, offset: 1 }), [namespaces[1]]);
  assert.ok((await listed()).length <= 100);
});

test("invalid requests are rejected", async () => {
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
  const token = randomUUID();
  const { thread_id } = await client.threads.create();
  await client.runs.wait(thread_id, "remembers", { input: userInput(token) });

  assert.deepEqual((await client.store.getItem(["notes"], token)).value, { text: token });
});
