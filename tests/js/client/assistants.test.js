import assert from "node:assert/strict";
import { test } from "node:test";

import { client } from "../support/sdk.js";

test("every graph of the project is an assistant under its own name", async () => {
  const [found] = await client.assistants.search({ graphId: "chat" });

  assert.equal(found.graph_id, "chat");
  assert.equal(found.name, "chat");
  assert.deepEqual(found.metadata, { created_by: "system" });
});

test("an assistant is got by the id that a search gave", async () => {
  const [found] = await client.assistants.search({ graphId: "approve" });

  assert.deepEqual(await client.assistants.get(found.assistant_id), found);
});

test("a search can be read page by page", async () => {
  const first = await client.assistants.search({ limit: 2, sortBy: "name", sortOrder: "asc", includePagination: true });
  const second = await client.assistants.search({
    limit: 2,
    offset: Number(first.next),
    sortBy: "name",
    sortOrder: "asc",
  });

  const seen = [...first.assistants, ...second].map((assistant) => assistant.name);
  assert.equal(seen.length, 4);
  assert.deepEqual(seen, [...new Set(seen)].sort());
});

test("an assistant's id runs its graph", async () => {
  const [assistant] = await client.assistants.search({ graphId: "chat" });
  const { thread_id } = await client.threads.create();

  const run = await client.runs.create(thread_id, assistant.assistant_id, { input: { messages: [] } });

  assert.equal(run.assistant_id, assistant.assistant_id);
});
