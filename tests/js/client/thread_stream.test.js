import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";

import { all, client, says } from "../support/sdk.js";
import { until } from "../support/until.js";

/**
 * Listen to a thread's stream until its runs have ended so often; the stream itself goes on for ever.
 *
 * @param {string} threadId
 * @param {number} runs
 * @param {object} options
 */
async function listen(threadId, runs, options) {
  const leaving = new AbortController();
  const parts = [];
  let done = 0;
  try {
    for await (const part of client.threads.joinStream(threadId, { ...options, signal: leaving.signal })) {
      parts.push(part);
      if (part.event === "metadata" && part.data.status === "run_done") done += 1;
      if (done === runs) break;
    }
  } finally {
    leaving.abort();
  }
  return parts;
}

/** @param {any[]} parts */
const events = (parts) => parts.map((part) => (part.data?.status === "run_done" ? "done" : part.event));

test("a thread is followed from one run to the next", async () => {
  const { thread_id } = await client.threads.create();
  await client.runs.wait(thread_id, "chat", { input: says("one") });

  const listening = listen(thread_id, 2, { lastEventId: "-" });
  const other = listen(thread_id, 2, { lastEventId: "-", streamMode: "lifecycle" });
  await client.runs.wait(thread_id, "fails", { input: says("two") }).catch(() => undefined);
  const parts = await listening;

  assert.deepEqual(events(parts), ["metadata", "values", "values", "done", "metadata", "values", "error", "done"]);
  assert.deepEqual(events(await other), ["metadata", "done", "metadata", "done"]);
});

test("without a position only what comes is shown, also in several modes", async () => {
  const { thread_id } = await client.threads.create();
  await client.runs.wait(thread_id, "chat", { input: says("one") });
  const listening = listen(thread_id, 1, { streamMode: ["lifecycle", "state_update"] });
  // It listens once the server has answered, which this client does not tell: so there are runs until it hears one.
  let heard = false;
  void listening.then(() => (heard = true));

  await until("the stream has told of a run", async () => {
    await client.runs.wait(thread_id, "chat", { input: says("again") });
    return heard;
  });

  assert.deepEqual(new Set(events(await listening)), new Set(["metadata", "state_update", "done"]));
});

test("one who comes back gets what he missed", async () => {
  const { thread_id } = await client.threads.create();
  await client.runs.wait(thread_id, "chat", { input: says("one"), streamMode: ["messages-tuple", "values"] });

  const whole = await listen(thread_id, 1, { lastEventId: "-1" });
  const rest = await listen(thread_id, 1, { lastEventId: whole[2].id });

  assert.deepEqual(rest, whole.slice(3));
});

for (const [title, ask, status] of /** @type {const} */ ([
  ["a thread that does not exist", async () => client.threads.joinStream(randomUUID()), 404],
  [
    "a position that is none",
    async () => client.threads.joinStream((await client.threads.create()).thread_id, { lastEventId: "nope" }),
    400,
  ],
])) {
  test(`${title} cannot be followed`, async () => {
    await assert.rejects(async () => all(await ask()), { status });
  });
}
