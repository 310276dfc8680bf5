import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";

import { actOnce, all, client, names, says } from "../support/sdk.js";
import { until } from "../support/until.js";

const answer = "Hello from the model";

/** @param {any} values */
const texts = (values) => values.messages.map((/** @type {any} */ message) => message.content);

test("waiting for a run without a thread gives its final values", async () => {
  assert.deepEqual(texts(await client.runs.wait(null, "chat", { input: says("hi") })), ["hi", answer]);
});

test("a run without a thread streams to its end", async () => {
  /** @type {any} */
  let told;
  const stream = client.runs.stream(null, "chat", {
    input: says("hi"),
    streamMode: ["messages-tuple", "values"],
    onRunCreated: (/** @type {any} */ run) => (told = run),
  });

  const parts = await all(stream);

  assert.deepEqual(names(parts), ["metadata", "values", "messages"]);
  assert.equal(told.run_id, /** @type {any} */ (parts[0].data).run_id);
  assert.deepEqual(texts(parts.at(-1)?.data), ["hi", answer]);
});

test("a run without a thread leaves none", async () => {
  const { thread_id, run_id } = await client.runs.create(null, "chat", { input: says("hi") });

  await all(client.runs.joinStream(null, run_id));

  await assert.rejects(client.threads.get(thread_id), { status: 404 });
});

test("a run without a thread keeps the one it made if it is told to", async () => {
  /** @type {any} */
  let told;
  await client.runs.wait(null, "chat", {
    input: says("hi"),
    onCompletion: "keep",
    onRunCreated: (/** @type {any} */ run) => (told = run),
  });

  assert.deepEqual(texts((await client.threads.getState(told.thread_id)).values), ["hi", answer]);
});

test("a stream without a thread is joined by the run's id alone", async () => {
  const { run_id } = await client.runs.create(null, "chat", { input: says("hi"), streamMode: ["values"] });

  const parts = await all(client.runs.joinStream(null, run_id, { lastEventId: "-1" }));

  assert.deepEqual(names(parts), ["metadata", "values"]);
  assert.deepEqual(texts(parts.at(-1)?.data), ["hi", answer]);
});

test("a stream that is cut off is resumed where it was, also after its run has ended", async () => {
  const stream = client.runs.stream(null, "chat", { input: says("hi"), streamMode: ["messages-tuple"] });
  const whole = await all(stream);
  const { run_id } = /** @type {any} */ (whole[0].data);
  const middle = /** @type {any} */ (whole[2]);

  const rest = await all(client.runs.joinStream(null, run_id, { lastEventId: middle.id }));

  assert.ok(rest.length > 0);
  assert.deepEqual(rest, whole.slice(3));
});

test("leaving a stream cancels its run if it was told to", async () => {
  const leaving = new AbortController();
  const stream = client.runs.stream(null, "waits", {
    input: says("hi"),
    streamMode: ["custom"],
    onDisconnect: "cancel",
    signal: leaving.signal,
  });
  /** @type {any} */
  let first;
  await actOnce(
    stream,
    (part) => part.event === "custom" || ((first ??= part.data), false),
    () => leaving.abort(),
  ).catch(() => undefined);

  // It would wait for an hour; joined, its stream ends because it was cancelled.
  const parts = await all(client.runs.joinStream(null, first.run_id, { lastEventId: "-1" }));
  assert.deepEqual(names(parts), ["metadata", "custom"]);
});

test("a resume needs a thread", async () => {
  await assert.rejects(client.runs.create(null, "approve", { command: { resume: "yes" } }), (/** @type {any} */ error) => {
    assert.equal(error.status, 400);
    assert.equal(JSON.parse(error.text).detail, "You must provide a thread_id when resuming.");
    return true;
  });
});

test("an unknown run is not found by its id alone", async () => {
  await assert.rejects(all(client.runs.joinStream(null, randomUUID())), { status: 404 });
});

test("a batch starts all its runs, with everything that was said", async () => {
  const { thread_id } = await client.threads.create();
  const runs = await client.runs.createBatch([
    { assistantId: "chat", input: says("one"), metadata: { number: 1 } },
    { assistantId: "chat", input: says("two"), onCompletion: "keep" },
    { assistantId: "chat", input: says("three"), threadId: thread_id, multitaskStrategy: "reject" },
  ]);

  assert.equal(runs[0].metadata.number, 1);
  assert.equal(runs[2].thread_id, thread_id);
  assert.equal(runs[2].multitask_strategy, "reject");
  for (const run of runs) await client.runs.join(run.thread_id, run.run_id);
  await assert.rejects(client.threads.get(runs[0].thread_id), { status: 404 });
  assert.equal((await client.threads.get(runs[1].thread_id)).status, "idle");
});

test("a batch with an unknown graph starts nothing", async () => {
  const { thread_id } = await client.threads.create();
  const batch = [
    { assistantId: "chat", threadId: thread_id },
    { assistantId: "nope" },
  ];

  await assert.rejects(client.runs.createBatch(batch), { status: 422 });

  assert.deepEqual(await client.runs.list(thread_id), []);
});

test("several runs of a thread are cancelled at once, where the SDK can ask for it", async () => {
  const { thread_id } = await client.threads.create();
  const runs = [];
  for (const word of ["one", "two"]) runs.push(await client.runs.create(thread_id, "waits", { input: says(word) }));
  const runIds = runs.map((run) => run.run_id);

  if ("cancelMany" in client.runs) {
    await client.runs.cancelMany({ threadId: thread_id, runIds, action: "interrupt" });
    await assert.rejects(client.runs.cancelMany({ threadId: thread_id, runIds: [randomUUID()] }), { status: 404 });
  } else {
    for (const runId of runIds) await client.runs.cancel(thread_id, runId);
  }

  await until("both are over", async () =>
    (await client.runs.list(thread_id)).every((/** @type {any} */ run) => run.status === "interrupted"),
  );
});
