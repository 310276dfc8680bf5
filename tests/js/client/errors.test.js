import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";

import { client, collect, userInput } from "../support/sdk.js";

/** Invalid requests, the status of the response, and what its detail must contain. */
const rejections = [
  {
    title: "an unknown thread is not found",
    request: () => client.threads.get(randomUUID()),
    status: 404,
    detail: /not found/,
  },
  {
    title: "a thread id must be a UUID",
    request: () => client.threads.get("nonsense"),
    status: 422,
    detail: /must be a UUID/,
  },
  {
    title: "the state of an unknown thread is not found",
    request: () => client.threads.getState(randomUUID()),
    status: 404,
    detail: /not found/,
  },
  {
    title: "a run cannot start on an unknown thread",
    request: () => client.runs.create(randomUUID(), "chat", { input: userInput("hi") }),
    status: 404,
    detail: /not found/,
  },
  {
    title: "streaming an unknown graph fails and lists the known graphs",
    request: async () => collect(client.runs.stream((await client.threads.create()).thread_id, "nope", { input: userInput("hi") })),
    status: 422,
    detail: /approve/,
  },
  {
    title: "an unknown run is not found",
    request: async () => client.runs.get((await client.threads.create()).thread_id, randomUUID()),
    status: 404,
    detail: /[Nn]ot [Ff]ound/,
  },
  {
    title: "an unknown run cannot be joined",
    request: async () => collect(client.runs.joinStream((await client.threads.create()).thread_id, randomUUID())),
    status: 404,
    detail: /[Nn]ot [Ff]ound/,
  },
  {
    title: "an unknown assistant is not found",
    request: () => client.assistants.get(randomUUID()),
    status: 404,
    detail: /[Nn]ot [Ff]ound/,
  },
  {
    title: "an assistant cannot be fetched by the name of its graph",
    request: () => client.assistants.get("chat"),
    status: 422,
    detail: /must be a UUID/,
  },
  {
    title: "creating an assistant of an unknown graph fails and lists the known graphs",
    request: () => client.assistants.create({ graphId: "nope" }),
    status: 404,
    detail: /approve/,
  },
  {
    title: "an unknown assistant cannot be updated",
    request: () => client.assistants.update(randomUUID(), { name: "x" }),
    status: 404,
    detail: /not found/,
  },
  {
    title: "an unknown version is not found",
    request: async () => client.assistants.setLatest((await client.assistants.create({ graphId: "chat" })).assistant_id, 9),
    status: 404,
    detail: /Version 9 not found/,
  },
  {
    title: "an assistant takes either a context or a configurable",
    request: () => client.assistants.create({ graphId: "chat", context: { a: 1 }, config: { configurable: { a: 1 } } }),
    status: 400,
    detail: /both configurable and context/,
  },
  {
    title: "an unknown stream mode is rejected",
    request: async () =>
      client.runs.create((await client.threads.create()).thread_id, "chat", { streamMode: /** @type {any} */ ("smoke") }),
    status: 422,
    detail: /stream_mode/,
  },
];

for (const { title, request, status, detail } of rejections) {
  test(title, async () => {
    await assert.rejects(request, (/** @type {any} */ error) => {
      assert.equal(error.status, status);
      assert.match(JSON.parse(error.text).detail, detail);
      return true;
    });
  });
}

test("a failing graph ends its stream with the error", async () => {
  const { thread_id } = await client.threads.create();

  const parts = await collect(client.runs.stream(thread_id, "fails", { input: userInput("hi") }));

  assert.deepEqual(parts.at(-1)?.event, "error");
  assert.deepEqual(parts.at(-1)?.data, { error: "ValueError", message: "boom!" });
  assert.equal((await client.threads.get(thread_id)).status, "error");
});

test("waiting for a failing graph throws the error", async () => {
  const { thread_id } = await client.threads.create();

  await assert.rejects(client.runs.wait(thread_id, "fails", { input: userInput("hi") }), /ValueError: boom!/);
});
