import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";

import { all, client, says } from "../support/sdk.js";

/** What is asked, the status that answers it, and words the person reading it needs. */
const refusals = [
  {
    title: "a thread that does not exist is not found",
    ask: () => client.threads.get(randomUUID()),
    status: 404,
    words: /not found/,
  },
  {
    title: "a thread id that is no UUID is invalid",
    ask: () => client.threads.get("nonsense"),
    status: 422,
    words: /must be a UUID/,
  },
  {
    title: "the state of a thread that does not exist is not found",
    ask: () => client.threads.getState(randomUUID()),
    status: 404,
    words: /not found/,
  },
  {
    title: "a thread that does not exist cannot be run",
    ask: () => client.runs.create(randomUUID(), "chat", { input: says("hi") }),
    status: 404,
    words: /not found/,
  },
  {
    title: "an unknown graph cannot be streamed, and the known ones are named",
    ask: async () => all(client.runs.stream((await client.threads.create()).thread_id, "nope", { input: says("hi") })),
    status: 422,
    words: /approve/,
  },
  {
    title: "a run that does not exist is not found",
    ask: async () => client.runs.get((await client.threads.create()).thread_id, randomUUID()),
    status: 404,
    words: /[Nn]ot [Ff]ound/,
  },
  {
    title: "a run that does not exist cannot be joined",
    ask: async () => all(client.runs.joinStream((await client.threads.create()).thread_id, randomUUID())),
    status: 404,
    words: /[Nn]ot [Ff]ound/,
  },
  {
    title: "an assistant that does not exist is not found",
    ask: () => client.assistants.get(randomUUID()),
    status: 404,
    words: /[Nn]ot [Ff]ound/,
  },
  {
    title: "an assistant is not got by its graph's name",
    ask: () => client.assistants.get("chat"),
    status: 422,
    words: /must be a UUID/,
  },
  {
    title: "an assistant of an unknown graph is not made, and the known ones are named",
    ask: () => client.assistants.create({ graphId: "nope" }),
    status: 404,
    words: /approve/,
  },
  {
    title: "an assistant that does not exist is not changed",
    ask: () => client.assistants.update(randomUUID(), { name: "x" }),
    status: 404,
    words: /not found/,
  },
  {
    title: "a version that does not exist is not found",
    ask: async () => client.assistants.setLatest((await client.assistants.create({ graphId: "chat" })).assistant_id, 9),
    status: 404,
    words: /Version 9 not found/,
  },
  {
    title: "an assistant is configured under one name at a time",
    ask: () => client.assistants.create({ graphId: "chat", context: { a: 1 }, config: { configurable: { a: 1 } } }),
    status: 400,
    words: /both configurable and context/,
  },
  {
    title: "a stream mode that does not exist is refused",
    ask: async () =>
      client.runs.create((await client.threads.create()).thread_id, "chat", { streamMode: /** @type {any} */ ("smoke") }),
    status: 422,
    words: /stream_mode/,
  },
];

for (const { title, ask, status, words } of refusals) {
  test(title, async () => {
    await assert.rejects(ask, (/** @type {any} */ error) => {
      assert.equal(error.status, status);
      assert.match(JSON.parse(error.text).detail, words);
      return true;
    });
  });
}

test("a graph that fails ends its stream with what went wrong", async () => {
  const { thread_id } = await client.threads.create();

  const parts = await all(client.runs.stream(thread_id, "fails", { input: says("hi") }));

  assert.deepEqual(parts.at(-1)?.event, "error");
  assert.deepEqual(parts.at(-1)?.data, { error: "ValueError", message: "boom!" });
  assert.equal((await client.threads.get(thread_id)).status, "error");
});

test("waiting for a graph that fails throws what went wrong", async () => {
  const { thread_id } = await client.threads.create();

  await assert.rejects(client.runs.wait(thread_id, "fails", { input: says("hi") }), /ValueError: boom!/);
});
