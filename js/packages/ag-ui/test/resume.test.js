import "./support/quiet.js";

import assert from "node:assert/strict";
import { before, describe, it } from "node:test";

import { Connection } from "../dist/connection.js";
import { ThreadwireAgent } from "../dist/index.js";
import { PATIENT } from "../dist/retry.js";
import { framesOf } from "../dist/stream.js";
import { story } from "./support/story.js";
import { entryFrames, FakeThread, fold } from "./support/thread.js";

const retry = { firstDelay: 0, attempts: 3 };
const sink = { policy: { ...PATIENT, ...retry }, connection: new Connection(), signal: new AbortController().signal };
const whole = story.flatMap((entry) => entry.events);
const recorded = story.map(entryFrames).join("");
const length = bytesIn(recorded);
/** Before, at and after the end of every frame, and in its middle. */
const cuts = cutsOf(recorded);

/** @type {Awaited<ReturnType<typeof fold>>} */
let expected;
before(async () => void (expected = await fold(whole)));

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

/** @param {{ agent: ThreadwireAgent }} page @param {string} [hint] */
function assertComplete({ agent: { messages, state } }, hint) {
  assert.deepEqual({ messages, state }, expected, hint);
}

/**
 * As above after a second snapshot: the client's reducer keeps its own order of the messages it knew before one.
 *
 * @param {{ agent: ThreadwireAgent }} page
 * @param {string} [hint]
 */
function assertCompleteInAnyOrder({ agent: { messages, state } }, hint) {
  const place = (/** @type {{ id: string }} */ { id }) => expected.messages.findIndex((each) => each.id === id);
  const sorted = messages.toSorted((one, other) => place(one) - place(other));
  assert.deepEqual({ messages: sorted, state }, expected, hint);
}

describe("a stream whose connection drops", () => {
  it("says every event once and in order, whatever the byte it drops at", async () => {
    for (let cut = bytesOf(story[0]); cut < length; cut++) {
      const thread = new FakeThread(story);
      thread.cuts = [cut];
      const said = [];
      for await (const { data } of framesOf(posted(thread), sink)) said.push(JSON.parse(data));
      assert.deepEqual(said, whole, `cut at ${cut}`);
    }
  });
});

describe("a run whose connection drops", () => {
  it("is whole wherever it drops, and is posted once", async () => {
    for (const cut of cuts) {
      const thread = new FakeThread(story);
      thread.cuts = [cut];
      const page = open(thread);
      await page.agent.runAgent();
      assertComplete(page, `cut at ${cut}`);
      assert.deepEqual(page.failures, []);
      const paths = thread.requests.map(({ path }) => path);
      assert.deepEqual(paths, ["/ag-ui/a", "/ag-ui/a/connect"], `cut at ${cut}`);
    }
  });

  it("is whole when the run is still going on when the page comes back", async () => {
    for (const { seq } of story) {
      for (const cut of [0, 40]) {
        const thread = new FakeThread(story);
        thread.cuts = [cut];
        thread.now = seq;
        const page = open(thread);
        await page.agent.runAgent();
        assertComplete(page, `rejoined at ${seq}`);
      }
    }
  });

  it("is whole after many drops", async () => {
    for (let seed = 1; seed <= 300; seed++) {
      const random = numbers(seed);
      const thread = new FakeThread(story);
      thread.now = story[random(story.length)]?.seq ?? 0;
      // Within reach of what is new, or it would count as an attempt in vain.
      thread.cuts = Array.from({ length: 1 + random(12) }, () => 600 + random(1500));
      const page = open(thread);
      await page.agent.runAgent();
      assertCompleteInAnyOrder(page, `seed ${seed}`);
      assert.deepEqual(page.failures, [], `seed ${seed}`);
    }
  });

  it("is whole when the server no longer knows the cursor", async () => {
    for (const cut of cuts) {
      for (const now of [story.at(-1)?.seq ?? 0, story[cut % story.length]?.seq ?? 0]) {
        const thread = new FakeThread(story);
        thread.cuts = [cut];
        thread.forgetful = true;
        thread.now = now;
        const page = open(thread);
        await page.agent.runAgent();
        assertCompleteInAnyOrder(page, `cut at ${cut}, rejoined at ${now}`);
        assert.deepEqual(page.failures, []);
      }
    }
  });

  it("begins once when the drop came before the server had begun with it", async () => {
    const begun = { seq: 8, events: [{ type: "RUN_STARTED", threadId: "thread-1", runId: "other" }] };
    const connects = (/** @type {number} */ after) => [begun, ...story.slice(1)].filter(({ seq }) => seq > after);
    const [first, second] = [bytesOf(story[0]), bytesOf(begun)];
    // Also when it is cut again among events that had come already.
    for (const cuts of [[first], [first + 120, second], [first + 120, second + 120], [first + 120, second + 300]]) {
      const thread = new FakeThread(story);
      thread.cuts = cuts;
      thread.answer = async ({ path, cursor }) => ({ begin: "", entries: path.endsWith("/connect") ? connects(Number(cursor)) : story });
      const page = open(thread);
      await page.agent.runAgent();
      assert.deepEqual(page.events, whole, `cut at ${cuts}`);
    }
  });

  it("goes on when the stream ends without the end of the run", async () => {
    const thread = new FakeThread(story);
    thread.instead = [async () => thread.stream({ begin: "", entries: story.slice(0, 6) })];
    const page = open(thread);
    await page.agent.runAgent();
    assertComplete(page);
    assert.equal(thread.requests[1]?.cursor, String(story[5]?.seq));
  });
});

describe("a connected thread", () => {
  it("is whole wherever the connection drops", async () => {
    for (const { seq: now } of story) {
      let thread = new FakeThread(story);
      thread.now = now;
      const { begin, entries } = await thread.connect(undefined);
      const stream = begin + entries.map(entryFrames).join("");
      for (const cut of cutsOf(stream).filter((_, index) => index % 7 === now % 7)) {
        thread = new FakeThread(story);
        thread.now = now;
        thread.cuts = [cut];
        const page = open(thread);
        await page.agent.connectAgent();
        assertCompleteInAnyOrder(page, `joined at ${now}, cut at ${cut}`);
        assert.deepEqual(page.failures, []);
      }
    }
  });

  it("is asked for without the conversation", async () => {
    const thread = new FakeThread(story);
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
function posted(thread) {
  return {
    open: (/** @type {string | undefined} */ cursor, /** @type {number} */ attempt) =>
      thread.fetch(attempt === 0 ? "/ag-ui/a" : "/ag-ui/a/connect", cursor ? { headers: { "Last-Event-ID": cursor } } : {}),
    until: /** @type {const} */ ("first end"),
    repeatable: false,
  };
}

/** @param {number} seed */
function numbers(seed) {
  let state = seed * 2654435761;
  return (/** @type {number} */ below) => {
    state = (Math.imul(state ^ (state >>> 15), 2246822519) + 374761393) | 0;
    return (state >>> 1) % below;
  };
}
