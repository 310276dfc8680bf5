import "./support/quiet.js";

import assert from "node:assert/strict";
import { before, describe, it } from "node:test";

import { Connection } from "../dist/connection.js";
import { ThreadwireAgent } from "../dist/index.js";
import { DEFAULT_RETRY_POLICY } from "../dist/retry.js";
import { streamFrames } from "../dist/stream.js";
import { sampleRun } from "./support/sample-run.js";
import { entryFrames, FakeThread, fold } from "./support/thread.js";

const retry = { firstDelay: 0, attempts: 3 };
const options = {
  policy: { ...DEFAULT_RETRY_POLICY, ...retry },
  connection: new Connection(),
  signal: new AbortController().signal,
};
const allEvents = sampleRun.flatMap((entry) => entry.events);
const recorded = sampleRun.map(entryFrames).join("");
const length = bytesIn(recorded);
/** Positions before, at and after the end of every frame, and in its middle. */
const cuts = cutsOf(recorded);

/** @type {Awaited<ReturnType<typeof fold>>} */
let expected;
before(async () => void (expected = await fold(allEvents)));

/** @param {FakeThread} thread */
function open(thread) {
  const agent = new ThreadwireAgent({ url: "/ag-ui/a", threadId: "thread-1", fetch: thread.fetch, retry });
  /** @type {any[]} */
  const events = [];
  /** @type {Error[]} */
  const failures = [];
  agent.subscribe({ onEvent: ({ event }) => void events.push(event), onRunFailed: ({ error }) => void failures.push(error) });
  return { agent, events, failures };
}

/** @param {{ agent: ThreadwireAgent }} client @param {string} [hint] */
function assertComplete({ agent: { messages, state } }, hint) {
  assert.deepEqual({ messages, state }, expected, hint);
}

/**
 * Like `assertComplete`, for use after a second snapshot: the client's reducer keeps its own order of messages that it
 * already had.
 *
 * @param {{ agent: ThreadwireAgent }} client
 * @param {string} [hint]
 */
function assertCompleteInAnyOrder({ agent: { messages, state } }, hint) {
  const position = (/** @type {{ id: string }} */ { id }) => expected.messages.findIndex((each) => each.id === id);
  const sorted = messages.toSorted((one, other) => position(one) - position(other));
  assert.deepEqual({ messages: sorted, state }, expected, hint);
}

describe("a stream whose connection drops", () => {
  it("delivers every event once and in order, whatever byte it drops at", async () => {
    for (let cut = bytesOf(sampleRun[0]); cut < length; cut++) {
      const thread = new FakeThread(sampleRun);
      thread.cuts = [cut];
      const events = [];
      for await (const { data } of streamFrames(postSource(thread), options)) events.push(JSON.parse(data));
      assert.deepEqual(events, allEvents, `cut at ${cut}`);
    }
  });
});

describe("a run whose connection drops", () => {
  it("is complete wherever it drops, and is posted once", async () => {
    for (const cut of cuts) {
      const thread = new FakeThread(sampleRun);
      thread.cuts = [cut];
      const client = open(thread);
      await client.agent.runAgent();
      assertComplete(client, `cut at ${cut}`);
      assert.deepEqual(client.failures, []);
      const paths = thread.requests.map(({ path }) => path);
      assert.deepEqual(paths, ["/ag-ui/a", "/ag-ui/a/connect"], `cut at ${cut}`);
    }
  });

  it("is complete when the run is still active after the client reconnects", async () => {
    for (const { seq } of sampleRun) {
      for (const cut of [0, 40]) {
        const thread = new FakeThread(sampleRun);
        thread.cuts = [cut];
        thread.now = seq;
        const client = open(thread);
        await client.agent.runAgent();
        assertComplete(client, `rejoined at ${seq}`);
      }
    }
  });

  it("is complete after many drops", async () => {
    for (let seed = 1; seed <= 300; seed++) {
      const random = randomNumbers(seed);
      const thread = new FakeThread(sampleRun);
      thread.now = sampleRun[random(sampleRun.length)]?.seq ?? 0;
      // Long enough to deliver something new. Otherwise it would count as a failed attempt.
      thread.cuts = Array.from({ length: 1 + random(12) }, () => 600 + random(1500));
      const client = open(thread);
      await client.agent.runAgent();
      assertCompleteInAnyOrder(client, `seed ${seed}`);
      assert.deepEqual(client.failures, [], `seed ${seed}`);
    }
  });

  it("is complete when the server no longer knows the cursor", async () => {
    for (const cut of cuts) {
      for (const now of [sampleRun.at(-1)?.seq ?? 0, sampleRun[cut % sampleRun.length]?.seq ?? 0]) {
        const thread = new FakeThread(sampleRun);
        thread.cuts = [cut];
        thread.forgetsCursors = true;
        thread.now = now;
        const client = open(thread);
        await client.agent.runAgent();
        assertCompleteInAnyOrder(client, `cut at ${cut}, rejoined at ${now}`);
        assert.deepEqual(client.failures, []);
      }
    }
  });

  it("starts once when the connection dropped before the server started it", async () => {
    const startEntry = { seq: 8, events: [{ type: "RUN_STARTED", threadId: "thread-1", runId: "other" }] };
    const entriesAfter = (/** @type {number} */ after) => [startEntry, ...sampleRun.slice(1)].filter(({ seq }) => seq > after);
    const [first, second] = [bytesOf(sampleRun[0]), bytesOf(startEntry)];
    // Including a second cut, among events that were received before.
    for (const cuts of [[first], [first + 120, second], [first + 120, second + 120], [first + 120, second + 300]]) {
      const thread = new FakeThread(sampleRun);
      thread.cuts = cuts;
      thread.respond = async ({ path, cursor }) => ({ preamble: "", entries: path.endsWith("/connect") ? entriesAfter(Number(cursor)) : sampleRun });
      const client = open(thread);
      await client.agent.runAgent();
      assert.deepEqual(client.events, allEvents, `cut at ${cuts}`);
    }
  });

  it("resumes when the stream ends before the run", async () => {
    const thread = new FakeThread(sampleRun);
    thread.overrides = [async () => thread.stream({ preamble: "", entries: sampleRun.slice(0, 6) })];
    const client = open(thread);
    await client.agent.runAgent();
    assertComplete(client);
    assert.equal(thread.requests[1]?.cursor, String(sampleRun[5]?.seq));
  });
});

describe("a connected thread", () => {
  it("is complete wherever the connection drops", async () => {
    for (const { seq: now } of sampleRun) {
      let thread = new FakeThread(sampleRun);
      thread.now = now;
      const { preamble, entries } = await thread.connect(undefined);
      const stream = preamble + entries.map(entryFrames).join("");
      for (const cut of cutsOf(stream).filter((_, index) => index % 7 === now % 7)) {
        thread = new FakeThread(sampleRun);
        thread.now = now;
        thread.cuts = [cut];
        const client = open(thread);
        await client.agent.connectAgent();
        assertCompleteInAnyOrder(client, `joined at ${now}, cut at ${cut}`);
        assert.deepEqual(client.failures, []);
      }
    }
  });

  it("is requested without messages and state", async () => {
    const thread = new FakeThread(sampleRun);
    const agent = open(thread).agent;
    agent.setMessages([{ id: "u", role: "user", content: "hi" }]);
    agent.setState({ big: "x" });
    await agent.connectAgent();
    const { path, body, cursor } = thread.requests[0] ?? {};
    assert.deepEqual([path, cursor, body.messages, body.state], ["/ag-ui/a/connect", null, [], {}]);
    assert.equal(body.threadId, "thread-1");
  });
});

/** @param {string} text */
function bytesIn(text) {
  return new TextEncoder().encode(text).length;
}

/** @param {import("./support/thread.js").Entry | undefined} entry */
const bytesOf = (entry) => (entry ? bytesIn(entryFrames(entry)) : 0);

/** @param {string} text */
function cutsOf(text) {
  const frames = text.split(/(?<=\n\n)/).map(bytesIn);
  const ends = frames.map((_, index) => frames.slice(0, index + 1).reduce((sum, each) => sum + each, 0));
  const all = ends.flatMap((end, index) => [end - Math.floor((frames[index] ?? 0) / 2), end - 1, end, end + 1]);
  return [0, 1, ...all].filter((cut) => cut < bytesIn(text));
}

/** @param {FakeThread} thread */
function postSource(thread) {
  return {
    open: (/** @type {string | undefined} */ cursor, /** @type {number} */ attempt) =>
      thread.fetch(attempt === 0 ? "/ag-ui/a" : "/ag-ui/a/connect", cursor ? { headers: { "Last-Event-ID": cursor } } : {}),
    until: /** @type {const} */ ("first end"),
    idempotent: false,
  };
}

/** @param {number} seed */
function randomNumbers(seed) {
  let state = seed * 2654435761;
  return (/** @type {number} */ below) => {
    state = (Math.imul(state ^ (state >>> 15), 2246822519) + 374761393) | 0;
    return (state >>> 1) % below;
  };
}
