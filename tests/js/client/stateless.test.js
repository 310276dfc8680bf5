import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";

import { actOnce, client, collect, eventNames, userInput } from "../support/sdk.js";
import { until } from "../support/until.js";

const reply = "Hello from the model";

/** @param {any} values */
const texts = (values) => values.messages.map((/** @type {any} */ message) => message.content);

test("waiting for a run without a thread returns its final values", async () => {
  assert.deepEqual(texts(await client.runs.wait(null, "chat", { input: userInput("hi") })), ["hi", reply]);
});

test("a run without a thread streams to its end", async () => {
  /** @type {any} */
  let created;
  const stream = client.runs.stream(null, "chat", {
    input: userInput("hi"),
    streamMode: ["messages-tuple", "values"],
    onRunCreated: (/** @type {any} */ run) => (created = run),
  });

  const parts = await collect(stream);

  assert.deepEqual(eventNames(parts), ["metadata", "values", "messages"]);
  assert.equal(created.run_id, /** @type {any} */ (parts[0].data).run_id);
  assert.deepEqual(texts(parts.at(-1)?.data), ["hi", reply]);
});

test("a run without a thread leaves no thread behind", async () => {
  const { thread_id, run_id } = await client.runs.create(null, "chat", { input: userInput("hi") });

  await collect(client.runs.joinStream(null, run_id));

  await assert.rejects(client.threads.get(thread_id), { status: 404 });
});

test("a run without a thread keeps its temporary thread if requested", async () => {
  /** @type {any} */
  let created;
  await client.runs.wait(null, "chat", {
    input: userInput("hi"),
    onCompletion: "keep",
    onRunCreated: (/** @type {any} */ run) => (created = run),
  });

  assert.deepEqual(texts((await client.threads.getState(created.thread_id)).values), ["hi", reply]);
});

test("a stream without a thread is joined by run id alone", async () => {
  const { run_id } = await client.runs.create(null, "chat", { input: userInput("hi"), streamMode: ["values"] });

  const parts = await collect(client.runs.joinStream(null, run_id, { lastEventId: "-1" }));

  assert.deepEqual(eventNames(parts), ["metadata", "values"]);
  assert.deepEqual(texts(parts.at(-1)?.data), ["hi", reply]);
});

test("a stream can be resumed after its run has ended", async () => {
  const stream = client.runs.stream(null, "chat", { input: userInput("hi"), streamMode: ["messages-tuple"] });
  const whole = await collect(stream);
  const { run_id } = /** @type {any} */ (whole[0].data);
  const middle = /** @type {any} */ (whole[2]);

  const rest = await collect(client.runs.joinStream(null, run_id, { lastEventId: middle.id }));

  assert.ok(rest.length > 0);
  assert.deepEqual(rest, whole.slice(3));
});

test("leaving a stream cancels its run if requested", async () => {
  const controller = new AbortController();
  const stream = client.runs.stream(null, "waits", {
    input: userInput("hi"),
    streamMode: ["custom"],
    onDisconnect: "cancel",
    signal: controller.signal,
  });
  /** @type {any} */
  let first;
  await actOnce(
    stream,
    (part) => part.event === "custom" || ((first ??= part.data), false),
    () => controller.abort(),
  ).catch(() => undefined);

  // The run would wait for an hour. Its stream only ends because it was cancelled.
  const parts = await collect(client.runs.joinStream(null, first.run_id, { lastEventId: "-1" }));
  assert.deepEqual(eventNames(parts), ["metadata", "custom"]);
});

test("a resume needs a thread", async () => {
  await assert.rejects(client.runs.create(null, "approve", { command: { resume: "yes" } }), (/** @type {any} */ error) => {
    assert.equal(error.status, 400);
    assert.equal(JSON.parse(error.text).detail, "You must provide a thread_id when resuming.");
    return true;
  });
});

test("joining an unknown run id fails", async () => {
  await assert.rejects(collect(client.runs.joinStream(null, randomUUID())), { status: 404 });
});

test("a batch starts all its runs with their options", async () => {
  const { thread_id } = await client.threads.create();
  const runs = await client.runs.createBatch([
    { assistantId: "chat", input: userInput("one"), metadata: { number: 1 } },
    { assistantId: "chat", input: userInput("two"), onCompletion: "keep" },
    { assistantId: "chat", input: userInput("three"), threadId: thread_id, multitaskStrategy: "reject" },
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

test("several runs of a thread are cancelled together, if the SDK supports it", async () => {
  const { thread_id } = await client.threads.create();
  const runs = [];
  for (const word of ["one", "two"]) runs.push(await client.runs.create(thread_id, "waits", { input: userInput(word) }));
  const runIds = runs.map((run) => run.run_id);

  if ("cancelMany" in client.runs) {
    await client.runs.cancelMany({ threadId: thread_id, runIds, action: "interrupt" });
    await assert.rejects(client.runs.cancelMany({ threadId: thread_id, runIds: [randomUUID()] }), { status: 404 });
  } else {
    for (const runId of runIds) await client.runs.cancel(thread_id, runId);
  }

  await until("both runs have ended", async () =>
    (await client.runs.list(thread_id)).every((/** @type {any} */ run) => run.status === "interrupted"),
  );
});
