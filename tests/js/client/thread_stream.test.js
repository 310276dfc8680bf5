import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";

import { client, collect, userInput } from "../support/sdk.js";
import { until } from "../support/until.js";

/**
 * Read a thread's stream until `runs` runs have ended; the stream itself never ends.
 *
 * @param {string} threadId
 * @param {number} runs
 * @param {object} options
 */
async function readRuns(threadId, runs, options) {
  const controller = new AbortController();
  const parts = [];
  let done = 0;
  try {
    for await (const part of client.threads.joinStream(threadId, { ...options, signal: controller.signal })) {
      parts.push(part);
      if (part.event === "metadata" && part.data.status === "run_done") done += 1;
      if (done === runs) break;
    }
  } finally {
    controller.abort();
  }
  return parts;
}

/** @param {any[]} parts */
const events = (parts) => parts.map((part) => (part.data?.status === "run_done" ? "done" : part.event));

test("a thread is followed across its runs", async () => {
  const { thread_id } = await client.threads.create();
  await client.runs.wait(thread_id, "chat", { input: userInput("one") });

  const reading = readRuns(thread_id, 2, { lastEventId: "-" });
  const other = readRuns(thread_id, 2, { lastEventId: "-", streamMode: "lifecycle" });
  await client.runs.wait(thread_id, "fails", { input: userInput("two") }).catch(() => undefined);
  const parts = await reading;

  assert.deepEqual(events(parts), ["metadata", "values", "values", "done", "metadata", "values", "error", "done"]);
  assert.deepEqual(events(await other), ["metadata", "done", "metadata", "done"]);
});

test("without a position the stream contains only new events, also in several modes", async () => {
  const { thread_id } = await client.threads.create();
  await client.runs.wait(thread_id, "chat", { input: userInput("one") });
  const reading = readRuns(thread_id, 1, { streamMode: ["lifecycle", "state_update"] });
  // The client does not report when the server has responded, so start runs until the stream contains one.
  let received = false;
  void reading.then(() => (received = true));

  await until("the stream contains a run", async () => {
    await client.runs.wait(thread_id, "chat", { input: userInput("again") });
    return received;
  });

  assert.deepEqual(new Set(events(await reading)), new Set(["metadata", "state_update", "done"]));
});

test("a client that reconnects gets the events it missed", async () => {
  const { thread_id } = await client.threads.create();
  await client.runs.wait(thread_id, "chat", { input: userInput("one"), streamMode: ["messages-tuple", "values"] });

  const whole = await readRuns(thread_id, 1, { lastEventId: "-1" });
  const rest = await readRuns(thread_id, 1, { lastEventId: whole[2].id });

  assert.deepEqual(rest, whole.slice(3));
});

for (const [title, join, status] of /** @type {const} */ ([
  ["an unknown thread", async () => client.threads.joinStream(randomUUID()), 404],
  [
    "an invalid position",
    async () => client.threads.joinStream((await client.threads.create()).thread_id, { lastEventId: "nope" }),
    400,
  ],
])) {
  test(`${title} cannot be followed`, async () => {
    await assert.rejects(async () => collect(await join()), { status });
  });
}
