import assert from "node:assert/strict";
import { test } from "node:test";

import { agent, connectedCore, createThreadStore, newThread, runtimeUrl, says } from "../support/copilotkit.js";
import { until } from "../support/until.js";

/** The store behind `useThreads`, and threads of an agent that no other test has. */
async function threads(count, context = {}) {
  const made = await fetch(`${process.env.SERVER_URL}/assistants`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ graph_id: "chat" }),
  });
  const agentId = (await made.json()).assistant_id;
  const ids = [];
  for (let at = 0; at < count; at += 1) {
    const here = agent(agentId, newThread());
    here.addMessage(says("hello"));
    await here.runAgent();
    ids.unshift(here.threadId);
  }
  const core = await connectedCore();
  const errors = [];
  const store = createThreadStore({ fetch: core.ɵruntimeFetch, onError: (error) => errors.push(error) });
  store.start();
  store.setContext({ runtimeUrl: runtimeUrl.replace(/\/$/, ""), headers: {}, agentId, ...context });
  await until("the list has come", () => store.getState().threads.length && !store.getState().isLoading);
  return { store, ids, errors, shown: () => store.getState().threads.map(({ id }) => id) };
}

test("the threads of an agent are listed, the one that ran last first", async () => {
  const { store, ids, shown } = await threads(2);

  assert.deepEqual(shown(), ids);
  assert.deepEqual([store.getState().error, store.getState().nextCursor], [null, null]);
});

test("the list goes on where it ended", async () => {
  const { store, ids, shown } = await threads(3, { limit: 2 });
  assert.deepEqual(shown(), ids.slice(0, 2));

  store.fetchNextPage();
  await until("the rest has come", () => shown().length === 3);
  assert.deepEqual(shown(), ids);
  assert.equal(store.getState().nextCursor, null);
});

test("a thread is renamed, archived, taken back and deleted", async () => {
  const { store, ids, errors, shown } = await threads(2, { includeArchived: true });
  const find = () => store.getState().threads.find(({ id }) => id === ids[0]);
  const again = async () => {
    store.refresh();
    await until("it is asked for", () => store.getState().isLoading);
    await until("it has come", () => !store.getState().isLoading);
  };

  await store.renameThread(ids[0], "A name / with ü");
  await store.archiveThread(ids[0]);
  await again();
  assert.deepEqual([find().name, find().archived], ["A name / with ü", true]);
  await store.unarchiveThread(ids[0]);
  await again();
  assert.equal(find().archived, false);
  await store.deleteThread(ids[0]);
  await again();
  assert.deepEqual([shown(), errors], [[ids[1]], []]);
});

test("what is refused is taken back on the page", async () => {
  const { store, ids, errors, shown } = await threads(1);
  const elsewhere = await fetch(`${process.env.SERVER_URL}/copilotkit/threads/${encodeURIComponent(ids[0])}`, {
    method: "DELETE",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ agentId: store.getState().context.agentId }),
  });
  assert.equal(elsewhere.status, 200);

  await assert.rejects(store.deleteThread(ids[0]), /404/);
  assert.deepEqual(shown(), ids);
  assert.equal(errors.length, 1);
});
