import assert from "node:assert/strict";
import { test } from "node:test";

import { connectedCore, createAgent, createThreadStore, newThread, runtimeUrl, userMessage } from "../support/copilotkit.js";
import { until } from "../support/until.js";

/** The store behind `useThreads`, with `count` threads of an agent that no other test uses. */
async function openStore(count, context = {}) {
  const response = await fetch(`${process.env.SERVER_URL}/assistants`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ graph_id: "chat" }),
  });
  const agentId = (await response.json()).assistant_id;
  const ids = [];
  for (let index = 0; index < count; index += 1) {
    const agent = createAgent(agentId, newThread());
    agent.addMessage(userMessage("hello"));
    await agent.runAgent();
    ids.unshift(agent.threadId);
  }
  const core = await connectedCore();
  const errors = [];
  const store = createThreadStore({ fetch: core.ɵruntimeFetch, onError: (error) => errors.push(error) });
  store.start();
  store.setContext({ runtimeUrl: runtimeUrl.replace(/\/$/, ""), headers: {}, agentId, ...context });
  await until("the list is loaded", () => store.getState().threads.length && !store.getState().isLoading);
  return { store, ids, errors, shown: () => store.getState().threads.map(({ id }) => id) };
}

test("the threads of an agent are listed, the most recent first", async () => {
  const { store, ids, shown } = await openStore(2);

  assert.deepEqual(shown(), ids);
  assert.deepEqual([store.getState().error, store.getState().nextCursor], [null, null]);
});

test("the list is paginated", async () => {
  const { store, ids, shown } = await openStore(3, { limit: 2 });
  assert.deepEqual(shown(), ids.slice(0, 2));

  store.fetchNextPage();
  await until("the second page is loaded", () => shown().length === 3);
  assert.deepEqual(shown(), ids);
  assert.equal(store.getState().nextCursor, null);
});

test("a thread is renamed, archived, unarchived and deleted", async () => {
  const { store, ids, errors, shown } = await openStore(2, { includeArchived: true });
  const find = () => store.getState().threads.find(({ id }) => id === ids[0]);
  const refresh = async () => {
    store.refresh();
    await until("the list is loading", () => store.getState().isLoading);
    await until("the list is loaded", () => !store.getState().isLoading);
  };

  await store.renameThread(ids[0], "A name / with ü");
  await store.archiveThread(ids[0]);
  await refresh();
  assert.deepEqual([find().name, find().archived], ["A name / with ü", true]);
  await store.unarchiveThread(ids[0]);
  await refresh();
  assert.equal(find().archived, false);
  await store.deleteThread(ids[0]);
  await refresh();
  assert.deepEqual([shown(), errors], [[ids[1]], []]);
});

test("a rejected change is undone on the page", async () => {
  const { store, ids, errors, shown } = await openStore(1);
  const deleted = await fetch(`${process.env.SERVER_URL}/copilotkit/threads/${encodeURIComponent(ids[0])}`, {
    method: "DELETE",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ agentId: store.getState().context.agentId }),
  });
  assert.equal(deleted.status, 200);

  await assert.rejects(store.deleteThread(ids[0]), /404/);
  assert.deepEqual(shown(), ids);
  assert.equal(errors.length, 1);
});
