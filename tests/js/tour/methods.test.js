/** Calls every method of the SDK's client once. ../client tests them in detail. */
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";

import { collect, client as plainClient, userInput } from "../support/sdk.js";
import { markUsed, recordCalls } from "../support/tour.js";
import { until } from "../support/until.js";

const client = recordCalls(plainClient, ["assistants", "threads", "runs", "crons", "store", "~ui"]);
const NEVER = "0 0 29 2 *";

test("assistants", async () => {
  const { assistants } = client;
  const created = await assistants.create({ graphId: "chat", name: "first", metadata: { tour: randomUUID() } });
  const id = created.assistant_id;

  assert.deepEqual(await assistants.get(id), created);
  assert.equal((await assistants.update(id, { name: "second" })).version, 2);
  assert.deepEqual((await assistants.getVersions(id)).map((/** @type {any} */ each) => each.version), [2, 1]);
  assert.equal((await assistants.setLatest(id, 1)).name, "first");
  assert.equal((await assistants.search({ metadata: created.metadata })).length, 1);
  assert.equal(await assistants.count({ metadata: created.metadata }), 1);
  assert.ok((await assistants.getGraph(id)).nodes.length > 1);
  assert.equal((await assistants.getSchemas(id)).graph_id, "chat");
  assert.deepEqual(await assistants.getSubgraphs(id), {});
  await assistants.delete(id);
  await assert.rejects(assistants.get(id), { status: 404 });
});

test("threads", async () => {
  const { threads, runs } = client;
  const metadata = { tour: randomUUID() };
  const { thread_id: id } = await threads.create({ metadata });
  await runs.wait(id, "chat", { input: userInput("hi") });

  assert.equal((await threads.get(id)).status, "idle");
  assert.equal((await threads.update(id, { metadata: { more: 1 } })).metadata.more, 1);
  assert.equal((await threads.search({ metadata })).length, 1);
  assert.equal(await threads.count({ metadata }), 1);
  await threads.patchState(id, { most: 2 });
  assert.equal((await threads.get(id)).metadata.most, 2);
  await threads.updateState(id, { values: userInput("injected") });
  assert.equal((await threads.getState(id)).values.messages.length, 3);
  assert.equal((await threads.getHistory(id, { limit: 2 })).length, 2);
  const copy = await threads.copy(id);
  assert.equal((await threads.getState(copy.thread_id)).values.messages.length, 3);
  if (threads.prune) assert.equal((await threads.prune([copy.thread_id])).pruned_count, 1);
  await threads.delete(id);
  await assert.rejects(threads.get(id), { status: 404 });
});

test("following a thread", async () => {
  const { thread_id: id } = await client.threads.create();
  const controller = new AbortController();
  const runDone = (async () => {
    for await (const part of client.threads.joinStream(id, { signal: controller.signal })) if (isDone(part)) return part;
  })();
  await client.runs.create(id, "chat", { input: userInput("hi") });

  assert.equal((/** @type {any} */ (await runDone)).data.status, "run_done");
  controller.abort();
});

/** @param {any} part */
const isDone = (part) => part.event === "metadata" && part.data.status === "run_done";

test("runs", async () => {
  const { threads, runs } = client;
  const { thread_id: id } = await threads.create();

  const created = await runs.create(id, "chat", { input: userInput("hi") });
  assert.equal((await runs.join(id, created.run_id)).messages.length, 2);
  assert.equal((await runs.get(id, created.run_id)).status, "success");
  assert.equal((await runs.list(id)).length, 1);
  assert.equal((await collect(runs.stream(id, "chat", { input: userInput("again") })))[0].event, "metadata");
  const replayed = await collect(runs.joinStream(id, created.run_id, { lastEventId: "-1" }));
  assert.equal(replayed[0].data.run_id, created.run_id);
  await runs.delete(id, created.run_id);
  assert.equal((await runs.list(id)).length, 1);
  const batch = await runs.createBatch([{ assistantId: "chat", input: userInput("a") }, { assistantId: "chat", input: userInput("b") }]);
  assert.equal(batch.length, 2);
});

test("cancelling runs", async () => {
  const { threads, runs } = client;
  const { thread_id: id } = await threads.create();
  const status = async (/** @type {string} */ run) => (await runs.get(id, run)).status;

  const first = await runs.create(id, "waits", { input: userInput("hi") });
  await until("the run has started", async () => (await status(first.run_id)) === "running");
  await runs.cancel(id, first.run_id, true);
  assert.equal(await status(first.run_id), "interrupted");
  if (!runs.cancelMany) return;
  const second = await runs.create(id, "waits", { input: userInput("hi") });
  await until("the run has started", async () => (await status(second.run_id)) === "running");
  await runs.cancelMany({ threadId: id, runIds: [second.run_id] });
  await until("the run is cancelled", async () => (await status(second.run_id)) === "interrupted");
});

test("crons", async () => {
  const { assistants, threads, crons } = client;
  const { assistant_id: assistantId } = await assistants.create({ graphId: "chat" });
  const { thread_id: threadId } = await threads.create();

  const created = await crons.create(assistantId, { schedule: NEVER, input: userInput("hi") });
  const ofThread = await crons.createForThread(threadId, assistantId, { schedule: NEVER, input: userInput("hi") });
  assert.equal(ofThread.thread_id, threadId);
  assert.equal((await crons.update(created.cron_id, { enabled: false })).enabled, false);
  assert.equal((await crons.search({ assistantId })).length, 2);
  assert.equal(await crons.count({ assistantId }), 2);
  await crons.delete(created.cron_id);
  assert.equal(await crons.count({ assistantId }), 1);
});

test("the thread wire", async () => {
  if (!("stream" in plainClient.threads)) return; // 2.0.0 does not speak it
  const thread = plainClient.threads.stream({ assistantId: "chat" });
  await thread.run.start({ input: userInput("hi") });
  assert.equal((await thread.output).messages.length, 2);
  await thread.close();
  markUsed("threads.stream");
});

test("components", async () => {
  assert.match(await client["~ui"].getComponent("chat", "weather"), /entrypoint\.js/);
});

test("the store", async () => {
  const { store } = client;
  const namespace = [randomUUID(), "b"];

  await store.putItem(namespace, "k", { n: 1 });
  assert.deepEqual((await store.getItem(namespace, "k")).value, { n: 1 });
  assert.equal((await store.searchItems(namespace)).items.length, 1);
  assert.deepEqual((await store.listNamespaces({ prefix: namespace.slice(0, 1) })).namespaces, [namespace]);
  await store.deleteItem(namespace, "k");
  assert.equal((await store.searchItems(namespace)).items.length, 0);
});
