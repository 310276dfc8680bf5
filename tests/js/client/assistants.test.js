import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";

import { client } from "../support/sdk.js";

/** @param {string} graphId */
const systemAssistant = async (graphId) =>
  (await client.assistants.search({ graphId, metadata: { created_by: "system" } }))[0];

test("every graph of the project has an assistant with its name", async () => {
  const found = await systemAssistant("chat");

  assert.equal(found.graph_id, "chat");
  assert.equal(found.name, "chat");
  assert.deepEqual(found.metadata, { created_by: "system" });
});

test("an assistant is fetched by the id that a search returned", async () => {
  const found = await systemAssistant("approve");

  assert.deepEqual(await client.assistants.get(found.assistant_id), found);
});

test("a search is paginated", async () => {
  /** @type {any} */
  const query = { metadata: { created_by: "system" }, limit: 2, sortBy: "name", sortOrder: "asc" };
  const first = await client.assistants.search({ ...query, includePagination: true });
  const second = await client.assistants.search({ ...query, offset: Number(first.next) });

  const names = [...first.assistants, ...second].map((assistant) => assistant.name);
  assert.equal(names.length, 4);
  assert.deepEqual(names, [...new Set(names)].sort());
});

test("a run accepts an assistant id", async () => {
  const assistant = await systemAssistant("chat");
  const { thread_id } = await client.threads.create();

  const run = await client.runs.create(thread_id, assistant.assistant_id, { input: { messages: [] } });

  assert.equal(run.assistant_id, assistant.assistant_id);
});

test("an assistant is created with all its fields, and fetched again", async () => {
  const assistantId = randomUUID();

  const created = await client.assistants.create({
    graphId: "chat",
    assistantId,
    context: { model: "large" },
    config: { tags: ["t"], recursion_limit: 7 },
    metadata: { team: "a" },
    name: "Mine",
    description: "What it is for",
  });

  const { created_at, updated_at, ...rest } = created;
  assert.equal(created_at, updated_at);
  assert.deepEqual(rest, {
    assistant_id: assistantId,
    graph_id: "chat",
    context: { model: "large" },
    config: { tags: ["t"], recursion_limit: 7, configurable: { model: "large" } },
    metadata: { team: "a" },
    name: "Mine",
    description: "What it is for",
    version: 1,
  });
  assert.deepEqual(await client.assistants.get(assistantId), created);
});

test("creating an existing assistant is a conflict or a no-op", async () => {
  const created = await client.assistants.create({ graphId: "chat" });
  const again = { graphId: "approve", assistantId: created.assistant_id };

  await assert.rejects(client.assistants.create(again), { status: 409 });
  assert.deepEqual(await client.assistants.create({ ...again, ifExists: "do_nothing" }), created);
});

test("an update creates a version, and an earlier version can be restored", async () => {
  const created = await client.assistants.create({ graphId: "chat", name: "v1", metadata: { a: 1 } });
  const id = created.assistant_id;

  const changed = await client.assistants.update(id, { name: "v2", metadata: { b: 2 }, context: { model: "small" } });
  assert.equal(changed.version, 2);
  assert.deepEqual(changed.metadata, { a: 1, b: 2 });
  assert.deepEqual(changed.config, { configurable: { model: "small" } });

  const versions = await client.assistants.getVersions(id);
  assert.deepEqual(versions.map((each) => [each.version, each.name]), [[2, "v2"], [1, "v1"]]);
  assert.equal("updated_at" in versions[0], false);
  assert.deepEqual(await client.assistants.getVersions(id, { limit: 1, offset: 1 }), versions.slice(1));
  assert.deepEqual(await client.assistants.getVersions(id, { metadata: { b: 2 } }), versions.slice(0, 1));

  const restored = await client.assistants.setLatest(id, 1);
  assert.deepEqual([restored.version, restored.name, restored.context], [1, "v1", {}]);
  assert.deepEqual(await client.assistants.get(id), restored);
});

test("assistants are counted and searched by name, graph and metadata", async () => {
  const token = randomUUID();
  const created = await client.assistants.create({ graphId: "chat", name: `Agent ${token}`, metadata: { token } });

  assert.equal(await client.assistants.count({ metadata: { token } }), 1);
  assert.equal(await client.assistants.count({ metadata: { token }, graphId: "approve" }), 0);
  assert.equal(await client.assistants.count({ name: token.toUpperCase() }), 1);
  assert.deepEqual(await client.assistants.search({ name: `agent ${token}` }), [created]);
  assert.deepEqual(await client.assistants.search({ metadata: { token }, select: ["name"] }), [{ name: `Agent ${token}` }]);
});

test("an assistant is deleted with or without its threads", async () => {
  const [alone, withThreads] = await Promise.all([1, 2].map(() => client.assistants.create({ graphId: "chat" })));
  const threads = [];
  for (const { assistant_id } of [alone, withThreads]) {
    const { thread_id } = await client.threads.create();
    await client.runs.wait(thread_id, assistant_id, { input: { messages: [] } });
    threads.push(thread_id);
  }

  await client.assistants.delete(alone.assistant_id);
  await client.assistants.delete(withThreads.assistant_id, { deleteThreads: true });

  await assert.rejects(client.assistants.get(alone.assistant_id), { status: 404 });
  assert.equal((await client.threads.get(threads[0])).status, "idle");
  await assert.rejects(client.threads.get(threads[1]), { status: 404 });
});

test("the system assistant of a graph cannot be deleted", async () => {
  const assistant = await systemAssistant("chat");

  await assert.rejects(client.assistants.delete(assistant.assistant_id), { status: 409 });
});

test("a graph is drawn with or without its subgraphs", async () => {
  const assistant = await systemAssistant("nested_chat");
  /** @param {{ nodes: { id: string | number }[] }} graph */
  const ids = (graph) => graph.nodes.map((node) => node.id);

  assert.deepEqual(ids(await client.assistants.getGraph(assistant.assistant_id)), ["__start__", "inner", "__end__"]);
  assert.ok(ids(await client.assistants.getGraph(assistant.assistant_id, { xray: true })).includes("inner:model"));
  assert.ok(ids(await client.assistants.getGraph("nested_chat", { xray: 1 })).includes("inner:model"));
});

test("a graph and its subgraphs have schemas", async () => {
  const assistant = await systemAssistant("nested_chat");

  const schemas = await client.assistants.getSchemas(assistant.assistant_id);
  assert.equal(schemas.graph_id, "nested_chat");
  assert.deepEqual(Object.keys(schemas.input_schema?.properties ?? {}), ["messages", "answer"]);
  const subgraphs = await client.assistants.getSubgraphs(assistant.assistant_id, { recurse: true });
  assert.deepEqual(Object.keys(subgraphs), ["inner"]);
  assert.deepEqual(await client.assistants.getSubgraphs(assistant.assistant_id, { namespace: "inner" }), subgraphs);
});
