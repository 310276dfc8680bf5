import "./support/quiet.js";

import assert from "node:assert/strict";
import { afterEach, describe, it } from "node:test";

import { openPage, until } from "./support/page.js";
import { shortRun } from "./support/story.js";
import { entryFrames, FakeThread, frame } from "./support/thread.js";

const runs = [...shortRun("one", 1), ...shortRun("two", 6), ...shortRun("three", 11)];
const says = (/** @type {string} */ name) => ({ id: name, role: "assistant", content: `hello ${name}` });
const ALL = [says("one"), says("two"), says("three")];
const EVENTS = "/ag-ui/a/threads/thread-1/events";

/** @type {(() => void)[]} */
const left = [];
afterEach(() => left.splice(0).forEach((unfollow) => unfollow()));

/** Whoever follows goes on until they leave. @param {{ agent: import("../dist/index.js").ThreadwireAgent }} page */
function follow({ agent }) {
  const unfollow = agent.follow();
  left.push(unfollow);
  return unfollow;
}

/** A thread whose followed stream stays open, as a server's does. @param {number} now */
function liveThread(now) {
  const thread = new FakeThread(runs);
  thread.now = now;
  thread.closes = false;
  return thread;
}

describe("following a thread", () => {
  it("shows what is there, then every run, whoever started it", async () => {
    const thread = liveThread(5);
    const page = openPage(thread);
    const { agent, events, shown } = page;
    const unfollow = follow(page);
    await until(() => agent.state.last === "three" && !agent.isRunning, "the third run is there");
    assert.deepEqual(agent.messages, ALL);
    assert.deepEqual(shown[0].state, { last: "one" });
    assert.equal(events.filter(({ type }) => type === "RUN_STARTED").length, 3);
    assert.deepEqual(thread.requests.map(({ method, path, cursor }) => [method, path, cursor]), [["GET", EVENTS, null]]);
    assert.equal(thread.requests[0]?.headers.get("x-key"), "secret");
    assert.equal(agent.connection.status.state, "connected");
    unfollow();
    await until(() => agent.connection.status.state === "closed", "it is closed");
  });

  it("loses and doubles nothing wherever the connection drops", async () => {
    const { begin, entries } = await liveThread(5).follow(undefined);
    const length = new TextEncoder().encode(begin + entries.map(entryFrames).join("")).length;
    for (let cut = 0; cut < length; cut += 5) {
      const thread = liveThread(5);
      thread.cuts = [cut];
      const page = openPage(thread);
      const { agent } = page;
      const unfollow = follow(page);
      await until(() => agent.state.last === "three" && !agent.isRunning, `the third run is there, cut at ${cut}`);
      assert.deepEqual(agent.messages, ALL, `cut at ${cut}`);
      unfollow();
    }
  });

  it("goes on with the cursor when the server ends the stream", async () => {
    const thread = liveThread(0);
    thread.instead = [async () => streamOf(thread, runs.slice(0, 2).map(entryFrames).join(""))];
    const page = openPage(thread);
    const { agent, states } = page;
    follow(page);
    await until(() => agent.state.last === "three", "the third run is there");
    assert.deepEqual(agent.messages, ALL);
    assert.equal(thread.requests[1]?.cursor, "2");
    assert.deepEqual(states(), ["connecting", "connected", "reconnecting", "connected"]);
  });

  it("never gives up on a server that is away, but does on one that says no", async () => {
    const thread = liveThread(5);
    thread.instead = [
      ...Array.from({ length: 20 }, () => () => Promise.reject(new TypeError("fetch failed"))),
      async () => new Response("no", { status: 503 }),
    ];
    const page = openPage(thread, { attempts: Infinity });
    const { agent, statuses } = page;
    follow(page);
    await until(() => agent.state.last === "three", "the third run is there");
    assert.equal(Math.max(...statuses.map(({ attempt }) => attempt ?? 0)), 21);

    const closed = liveThread(5);
    closed.instead = [async () => Response.json({ detail: "Not yours." }, { status: 403 })];
    const refused = openPage(closed);
    follow(refused);
    await until(() => refused.agent.connection.status.state === "error", "it is given up");
    assert.deepEqual(refused.agent.connection.status, { state: "error", reason: "HTTP 403: Not yours." });
    assert.equal(closed.requests.length, 1);
  });

  it("makes room for a run of one's own and goes on behind it", async () => {
    const thread = liveThread(5);
    thread.entries = shortRun("one", 1);
    const page = openPage(thread);
    const { agent, events, states } = page;
    follow(page);
    await until(() => agent.state.last === "one" && !agent.isRunning, "the first run is there");

    agent.addMessage({ id: "u", role: "user", content: "hi" });
    thread.instead = [async () => streamOf(thread, shortRun("two", 6).map(entryFrames).join(""))];
    thread.entries = runs;
    await agent.runAgent();
    await until(() => agent.state.last === "three", "the third run is there");

    assert.deepEqual(agent.messages, [says("one"), { id: "u", role: "user", content: "hi" }, says("two"), says("three")]);
    assert.deepEqual(thread.requests.map(({ path, cursor }) => [path, cursor]), [
      [EVENTS, null],
      ["/ag-ui/a", null],
      [EVENTS, "10"],
    ]);
    assert.deepEqual(thread.requests[1]?.body.messages.at(-1), { id: "u", role: "user", content: "hi" });
    assert.equal(events.filter(({ messageId, type }) => messageId === "two" && type === "TEXT_MESSAGE_START").length, 1);
    assert.deepEqual(states(), ["connecting", "connected"], "one stream takes the place of the other");
  });

  it("keeps what is typed while another run is being shown", async () => {
    const thread = liveThread(5);
    thread.entries = runs.slice(0, 8);
    const page = openPage(thread);
    const { agent } = page;
    follow(page);
    await until(() => agent.messages.at(-1)?.id === "two", "the second run has begun");
    assert.equal(agent.isRunning, true);

    thread.instead = [async () => streamOf(thread, shortRun("three", 11).map(entryFrames).join(""))];
    thread.entries = runs;
    thread.now = 15;
    agent.addMessage({ id: "u", role: "user", content: "hi" });
    await agent.runAgent();
    assert.ok(thread.requests[1]?.body.messages.some(({ id }) => id === "u"), "it was sent");
    // The rest of the second run was not seen, so what there is is read anew.
    await until(() => thread.requests.length === 3 && agent.messages.find(({ id }) => id === "two")?.content === "hello two", "it is whole");
    assert.equal(thread.requests[2]?.cursor, null);
  });

  it("ends, and says why, when what comes makes no sense", async () => {
    const thread = liveThread(5);
    const nonsense = [{ seq: 1, events: [{ type: "RUN_STARTED", threadId: "t", runId: "r" }, { type: "TEXT_MESSAGE_END", messageId: "x" }] }];
    thread.instead = [async () => thread.stream({ begin: "", entries: nonsense })];
    const page = openPage(thread);
    follow(page);
    await until(() => page.agent.connection.status.state === "error", "it is given up");
    assert.match(page.statuses.at(-1).reason, /TEXT_MESSAGE_END/);
    assert.equal(thread.requests.length, 1);
  });

  it("can be left and taken up again at once", async () => {
    const thread = liveThread(5);
    const page = openPage(thread);
    const { agent } = page;
    follow(page)();
    follow(page);
    await until(() => agent.state.last === "three" && !agent.isRunning, "the third run is there");
    assert.deepEqual(agent.messages, ALL);
  });
});

describe("reading the thread anew", () => {
  it("changes what changed and never shows less", async () => {
    const thread = new FakeThread(runs);
    thread.now = 5;
    const { agent, shown, busy } = openPage(thread);
    await agent.connectAgent();
    shown.length = busy.length = 0;
    thread.now = 10;
    await agent.sync();
    assert.deepEqual(agent.messages, [says("one"), says("two")]);
    assert.deepEqual(agent.state, { last: "two" });
    assert.ok(shown.length > 0 && shown.every(({ messages, state }) => messages.length > 0 && state.last), "nothing was reset");
    assert.deepEqual(busy, [], "no run was shown");
    assert.equal(thread.requests.at(-1)?.cursor, null);
  });

  it("does not wait for a run that goes on", async () => {
    const thread = liveThread(7);
    thread.entries = runs.slice(0, 7);
    const { agent } = openPage(thread);
    await agent.sync();
    assert.deepEqual(agent.messages, [says("one"), { id: "two", role: "assistant", content: "hello " }]);
    assert.equal(agent.connection.status.state, "closed");
  });

  it("works while following", async () => {
    const thread = liveThread(15);
    const page = openPage(thread);
    const { agent } = page;
    follow(page);
    await until(() => agent.state.last === "three" && !agent.isRunning, "it is there");
    agent.setState({ last: "mistaken" });
    await agent.sync();
    assert.deepEqual([agent.state, agent.messages], [{ last: "three" }, ALL]);
  });

  it("fails with what the server says about a thread that is not there", async () => {
    const thread = new FakeThread([]);
    const missing = frame({ type: "RUN_ERROR", message: "Thread 'x' not found.", code: "404" });
    thread.instead = [async () => streamOf(thread, missing)];
    const { agent } = openPage(thread);
    await assert.rejects(agent.sync(), /Thread 'x' not found\./);
  });
});

/** @param {FakeThread} thread @param {string} begin */
function streamOf(thread, begin) {
  const { closes } = thread;
  thread.closes = true;
  const response = thread.stream({ begin, entries: [] });
  thread.closes = closes;
  return response;
}
