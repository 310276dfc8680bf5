import assert from "node:assert/strict";
import { test } from "node:test";

import { actOnce, all, client, names, says } from "../support/sdk.js";

const newThread = async () => (await client.threads.create()).thread_id;

/** The events each mode makes, besides `metadata`, which comes first in every stream. */
const eventsOfModes = {
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

for (const [mode, events] of Object.entries(eventsOfModes)) {
  test(`the mode ${mode} streams ${events.join(" and ")}`, async () => {
    const parts = await all(client.runs.stream(await newThread(), "chat", { input: says("hi"), streamMode: mode }));

    assert.deepEqual(names(parts), ["metadata", ...events]);
  });
}

test("all modes stream together", async () => {
  const modes = Object.keys(eventsOfModes).filter((mode) => mode !== "messages");

  const parts = await all(client.runs.stream(await newThread(), "chat", { input: says("hi"), streamMode: modes }));

  const expected = modes.map((mode) => eventsOfModes[/** @type {keyof typeof eventsOfModes} */ (mode)][0]);
  assert.deepEqual(new Set(names(parts)), new Set(["metadata", ...expected]));
});

test("the tokens of an answer add up to it", async () => {
  const parts = await all(
    client.runs.stream(await newThread(), "chat", { input: says("hi"), streamMode: ["messages-tuple", "values"] }),
  );

  const tokens = parts.filter((part) => part.event === "messages").map((part) => part.data[0].content);
  assert.ok(tokens.length >= 4);
  assert.equal(tokens.join(""), "Hello from the model");
  assert.equal(parts.at(-1)?.data.messages.at(-1).content, "Hello from the model");
});

test("an accumulated message only grows", async () => {
  const parts = await all(
    client.runs.stream(await newThread(), "chat", { input: says("hi"), streamMode: "messages" }),
  );

  const partial = parts.filter((part) => part.event === "messages/partial").map((part) => part.data[0].content);
  assert.equal(partial.at(-1), "Hello from the model");
  for (const [index, text] of partial.slice(1).entries()) assert.ok(text.startsWith(partial[index]));
});

test("a subgraph speaks under its own name when it is listened to", async () => {
  const options = { input: says("hi"), streamMode: ["messages-tuple", "updates"] };

  const within = await all(client.runs.stream(await newThread(), "nested_chat", { ...options, streamSubgraphs: true }));
  const without = await all(client.runs.stream(await newThread(), "nested_chat", options));

  assert.ok(names(within).some((name) => name.startsWith("messages|inner:")));
  assert.ok(names(within).some((name) => name.startsWith("updates|inner:")));
  assert.deepEqual(new Set(names(without)), new Set(["metadata", "messages", "updates"]));
});

test("a joined stream with no position, of a run that is over, is empty", async () => {
  const threadId = await newThread();
  const { run_id } = await client.runs.create(threadId, "chat", { input: says("hi") });
  await client.runs.join(threadId, run_id);

  assert.deepEqual(await all(client.runs.joinStream(threadId, run_id)), []);
});

test("a joined stream says the same again from the start", async () => {
  const threadId = await newThread();
  let runId = "";
  const live = await all(
    client.runs.stream(threadId, "chat", {
      input: says("hi"),
      streamMode: ["values", "messages-tuple"],
      streamResumable: true,
      onRunCreated: (/** @type {any} */ run) => (runId = run.run_id),
    }),
  );

  const again = await all(client.runs.joinStream(threadId, runId, { lastEventId: "-1" }));

  assert.deepEqual(again, live);
});

test("a joined stream goes on behind every id", async () => {
  const threadId = await newThread();
  const { run_id } = await client.runs.create(threadId, "chat", {
    input: says("hi"),
    streamMode: ["values", "messages-tuple", "updates"],
    streamResumable: true,
  });
  const whole = await all(client.runs.joinStream(threadId, run_id, { lastEventId: "-1" }));

  for (const [index, part] of whole.entries()) {
    assert.ok(part.id);
    const rest = await all(client.runs.joinStream(threadId, run_id, { lastEventId: part.id }));
    assert.deepEqual(rest, whole.slice(index + 1));
  }
});

test("a joined stream gives only the modes it asks for", async () => {
  const threadId = await newThread();
  const { run_id } = await client.runs.create(threadId, "chat", {
    input: says("hi"),
    streamMode: ["values", "messages-tuple", "updates"],
    streamResumable: true,
  });
  await client.runs.join(threadId, run_id);

  const options = { lastEventId: "-1", streamMode: ["updates", "values"] };
  const parts = await all(client.runs.joinStream(threadId, run_id, options));

  assert.deepEqual(new Set(names(parts)), new Set(["metadata", "updates", "values"]));
});

test("one who joins in the middle hears the rest", async () => {
  const threadId = await newThread();
  /** @type {any[]} */
  let joined = [];
  const { run_id } = await client.runs.create(threadId, "slow_chat", {
    input: says("hi"),
    streamMode: ["messages-tuple", "values"],
  });
  const live = await actOnce(
    client.runs.joinStream(threadId, run_id, { lastEventId: "-1" }),
    (part) => part.event === "messages",
    async (part) => {
      joined = await all(client.runs.joinStream(threadId, run_id, { lastEventId: part.id }));
    },
  );

  const first = live.findIndex((part) => part.event === "messages");
  assert.ok(joined.length > 10);
  assert.deepEqual(joined, live.slice(first + 1));
});

test("a stream that is cancelled just ends", async () => {
  const threadId = await newThread();
  const parts = await actOnce(
    client.runs.stream(threadId, "waits", { input: says("hi"), streamMode: ["custom", "values"] }),
    (part) => part.event === "custom",
    async () => {
      const [run] = await client.runs.list(threadId);
      await client.runs.cancel(threadId, run.run_id);
    },
  );

  assert.deepEqual(new Set(names(parts)), new Set(["metadata", "values", "custom"]));
  assert.equal((await client.runs.list(threadId))[0].status, "interrupted");
});

test("leaving a stream cancels the run when that was wished", async () => {
  const threadId = await newThread();
  const leaving = new AbortController();
  let runId = "";
  const stream = client.runs.stream(threadId, "waits", {
    input: says("hi"),
    streamMode: "custom",
    onDisconnect: "cancel",
    signal: leaving.signal,
    onRunCreated: (/** @type {any} */ run) => (runId = run.run_id),
  });

  await actOnce(stream, (part) => part.event === "custom", () => leaving.abort());

  await client.runs.join(threadId, runId);
  assert.equal((await client.runs.get(threadId, runId)).status, "interrupted");
});

test("a stream shows the interrupt, and the answer's stream what came of it", async () => {
  const threadId = await newThread();
  const options = { streamMode: ["values", "updates"] };

  const asked = await all(client.runs.stream(threadId, "approve", { ...options, input: says("go") }));
  const answered = await all(client.runs.stream(threadId, "approve", { ...options, command: { resume: "yes" } }));

  assert.deepEqual(asked.at(-1)?.data.__interrupt__[0].value, { question: "May I?" });
  assert.deepEqual(asked.findLast((part) => part.event === "updates")?.data.__interrupt__[0].value, {
    question: "May I?",
  });
  assert.equal(answered.at(-1)?.data.answer, "yes");
  assert.equal(answered.at(-1)?.data.messages.at(-1).content, "Done as you said");
});
