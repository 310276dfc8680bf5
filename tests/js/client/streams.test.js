import assert from "node:assert/strict";
import { test } from "node:test";

import { actOnce, client, collect, eventNames, userInput } from "../support/sdk.js";

const newThread = async () => (await client.threads.create()).thread_id;

/** The events of each mode, in addition to `metadata`, which comes first in every stream. */
const eventsByMode = {
  values: ["values"],
  updates: ["updates"],
  "messages-tuple": ["messages"],
  messages: ["messages/metadata", "messages/partial"],
  custom: ["custom"],
  tasks: ["tasks"],
  checkpoints: ["checkpoints"],
  debug: ["debug"],
  events: ["events"],
};

for (const [mode, events] of Object.entries(eventsByMode)) {
  test(`the mode ${mode} streams ${events.join(" and ")}`, async () => {
    const parts = await collect(client.runs.stream(await newThread(), "chat", { input: userInput("hi"), streamMode: mode }));

    assert.deepEqual(eventNames(parts), ["metadata", ...events]);
  });
}

test("all modes can be streamed together", async () => {
  const modes = Object.keys(eventsByMode).filter((mode) => mode !== "messages");

  const parts = await collect(client.runs.stream(await newThread(), "chat", { input: userInput("hi"), streamMode: modes }));

  const expected = modes.map((mode) => eventsByMode[/** @type {keyof typeof eventsByMode} */ (mode)][0]);
  assert.deepEqual(new Set(eventNames(parts)), new Set(["metadata", ...expected]));
});

test("the tokens of a reply add up to the reply", async () => {
  const parts = await collect(
    client.runs.stream(await newThread(), "chat", { input: userInput("hi"), streamMode: ["messages-tuple", "values"] }),
  );

  const tokens = parts.filter((part) => part.event === "messages").map((part) => part.data[0].content);
  assert.ok(tokens.length >= 4);
  assert.equal(tokens.join(""), "Hello from the model");
  assert.equal(parts.at(-1)?.data.messages.at(-1).content, "Hello from the model");
});

test("an accumulated message only grows", async () => {
  const parts = await collect(
    client.runs.stream(await newThread(), "chat", { input: userInput("hi"), streamMode: "messages" }),
  );

  const partial = parts.filter((part) => part.event === "messages/partial").map((part) => part.data[0].content);
  assert.equal(partial.at(-1), "Hello from the model");
  for (const [index, text] of partial.slice(1).entries()) assert.ok(text.startsWith(partial[index]));
});

test("events of a subgraph carry its name if subgraphs are streamed", async () => {
  const options = { input: userInput("hi"), streamMode: ["messages-tuple", "updates"] };

  const withSubgraphs = await collect(client.runs.stream(await newThread(), "nested_chat", { ...options, streamSubgraphs: true }));
  const withoutSubgraphs = await collect(client.runs.stream(await newThread(), "nested_chat", options));

  assert.ok(eventNames(withSubgraphs).some((name) => name.startsWith("messages|inner:")));
  assert.ok(eventNames(withSubgraphs).some((name) => name.startsWith("updates|inner:")));
  assert.deepEqual(new Set(eventNames(withoutSubgraphs)), new Set(["metadata", "messages", "updates"]));
});

test("joining an ended run without a position returns an empty stream", async () => {
  const threadId = await newThread();
  const { run_id } = await client.runs.create(threadId, "chat", { input: userInput("hi") });
  await client.runs.join(threadId, run_id);

  assert.deepEqual(await collect(client.runs.joinStream(threadId, run_id)), []);
});

test("joining a run from the start replays the same events", async () => {
  const threadId = await newThread();
  let runId = "";
  const live = await collect(
    client.runs.stream(threadId, "chat", {
      input: userInput("hi"),
      streamMode: ["values", "messages-tuple"],
      streamResumable: true,
      onRunCreated: (/** @type {any} */ run) => (runId = run.run_id),
    }),
  );

  const replayed = await collect(client.runs.joinStream(threadId, runId, { lastEventId: "-1" }));

  assert.deepEqual(replayed, live);
});

test("a joined stream resumes after any id", async () => {
  const threadId = await newThread();
  const { run_id } = await client.runs.create(threadId, "chat", {
    input: userInput("hi"),
    streamMode: ["values", "messages-tuple", "updates"],
    streamResumable: true,
  });
  const whole = await collect(client.runs.joinStream(threadId, run_id, { lastEventId: "-1" }));

  for (const [index, part] of whole.entries()) {
    assert.ok(part.id);
    const rest = await collect(client.runs.joinStream(threadId, run_id, { lastEventId: part.id }));
    assert.deepEqual(rest, whole.slice(index + 1));
  }
});

test("a joined stream contains only the requested modes", async () => {
  const threadId = await newThread();
  const { run_id } = await client.runs.create(threadId, "chat", {
    input: userInput("hi"),
    streamMode: ["values", "messages-tuple", "updates"],
    streamResumable: true,
  });
  await client.runs.join(threadId, run_id);

  const options = { lastEventId: "-1", streamMode: ["updates", "values"] };
  const parts = await collect(client.runs.joinStream(threadId, run_id, options));

  assert.deepEqual(new Set(eventNames(parts)), new Set(["metadata", "updates", "values"]));
});

test("joining in the middle returns the rest", async () => {
  const threadId = await newThread();
  /** @type {any[]} */
  let joined = [];
  const { run_id } = await client.runs.create(threadId, "slow_chat", {
    input: userInput("hi"),
    streamMode: ["messages-tuple", "values"],
  });
  const live = await actOnce(
    client.runs.joinStream(threadId, run_id, { lastEventId: "-1" }),
    (part) => part.event === "messages",
    async (part) => {
      joined = await collect(client.runs.joinStream(threadId, run_id, { lastEventId: part.id }));
    },
  );

  const first = live.findIndex((part) => part.event === "messages");
  assert.ok(joined.length > 10);
  assert.deepEqual(joined, live.slice(first + 1));
});

test("the stream of a cancelled run ends without an error", async () => {
  const threadId = await newThread();
  const parts = await actOnce(
    client.runs.stream(threadId, "waits", { input: userInput("hi"), streamMode: ["custom", "values"] }),
    (part) => part.event === "custom",
    async () => {
      const [run] = await client.runs.list(threadId);
      await client.runs.cancel(threadId, run.run_id);
    },
  );

  assert.deepEqual(new Set(eventNames(parts)), new Set(["metadata", "values", "custom"]));
  assert.equal((await client.runs.list(threadId))[0].status, "interrupted");
});

test("leaving a stream cancels the run if requested", async () => {
  const threadId = await newThread();
  const controller = new AbortController();
  let runId = "";
  const stream = client.runs.stream(threadId, "waits", {
    input: userInput("hi"),
    streamMode: "custom",
    onDisconnect: "cancel",
    signal: controller.signal,
    onRunCreated: (/** @type {any} */ run) => (runId = run.run_id),
  });

  await actOnce(stream, (part) => part.event === "custom", () => controller.abort());

  await client.runs.join(threadId, runId);
  assert.equal((await client.runs.get(threadId, runId)).status, "interrupted");
});

test("a stream contains the interrupt, and the next stream the result of the answer", async () => {
  const threadId = await newThread();
  const options = { streamMode: ["values", "updates"] };

  const interrupted = await collect(client.runs.stream(threadId, "approve", { ...options, input: userInput("go") }));
  const resumed = await collect(client.runs.stream(threadId, "approve", { ...options, command: { resume: "yes" } }));

  assert.deepEqual(interrupted.at(-1)?.data.__interrupt__[0].value, { question: "May I?" });
  assert.deepEqual(interrupted.findLast((part) => part.event === "updates")?.data.__interrupt__[0].value, {
    question: "May I?",
  });
  assert.equal(resumed.at(-1)?.data.answer, "yes");
  assert.equal(resumed.at(-1)?.data.messages.at(-1).content, "Done as you said");
});
