import "./support/quiet.js";

import assert from "node:assert/strict";
import { afterEach, describe, it } from "node:test";

import { openAgent, until } from "./support/agent.js";
import { shortRun } from "./support/sample-run.js";
import { entryFrames, FakeThread, frame } from "./support/thread.js";

const runs = [...shortRun("one", 1), ...shortRun("two", 6), ...shortRun("three", 11)];
const reply = (/** @type {string} */ name) => ({ id: name, role: "assistant", content: `hello ${name}` });
const ALL = [reply("one"), reply("two"), reply("three")];
const EVENTS = "/ag-ui/a/threads/thread-1/events";

/** @type {(() => void)[]} */
const unfollows = [];
afterEach(() => unfollows.splice(0).forEach((unfollow) => unfollow()));

/** Follow until the end of the test. @param {{ agent: import("../dist/index.js").ThreadwireAgent }} client */
function follow({ agent }) {
  const unfollow = agent.follow();
  unfollows.push(unfollow);
  return unfollow;
}

/** A thread whose followed stream stays open, like a real server's. @param {number} now */
function liveThread(now) {
  const thread = new FakeThread(runs);
  thread.now = now;
  thread.closes = false;
  return thread;
}

describe("following a thread", () => {
  it("starts with a snapshot and then streams every run, including those of other clients", async () => {
    const thread = liveThread(5);
    const client = openAgent(thread);
    const { agent, events, shown } = client;
    const unfollow = follow(client);
    await until(() => agent.state.last === "three" && !agent.isRunning, "the third run is complete");
    assert.deepEqual(agent.messages, ALL);
    assert.deepEqual(shown[0].state, { last: "one" });
    assert.equal(events.filter(({ type }) => type === "RUN_STARTED").length, 3);
    assert.deepEqual(thread.requests.map(({ method, path, cursor }) => [method, path, cursor]), [["GET", EVENTS, null]]);
    assert.equal(thread.requests[0]?.headers.get("x-key"), "secret");
    assert.equal(agent.connection.status.state, "connected");
    unfollow();
    await until(() => agent.connection.status.state === "closed", "the connection is closed");
  });

  it("neither loses nor duplicates events, wherever the connection drops", async () => {
    const { preamble, entries } = await liveThread(5).follow(undefined);
    const length = new TextEncoder().encode(preamble + entries.map(entryFrames).join("")).length;
    for (let cut = 0; cut < length; cut += 5) {
      const thread = liveThread(5);
      thread.cuts = [cut];
      const client = openAgent(thread);
      const { agent } = client;
      const unfollow = follow(client);
      await until(() => agent.state.last === "three" && !agent.isRunning, `the third run is complete, cut at ${cut}`);
      assert.deepEqual(agent.messages, ALL, `cut at ${cut}`);
      unfollow();
    }
  });

  it("resumes with the cursor when the server ends the stream", async () => {
    const thread = liveThread(0);
    thread.overrides = [async () => streamOf(thread, runs.slice(0, 2).map(entryFrames).join(""))];
    const client = openAgent(thread);
    const { agent, states } = client;
    follow(client);
    await until(() => agent.state.last === "three", "the third run is complete");
    assert.deepEqual(agent.messages, ALL);
    assert.equal(thread.requests[1]?.cursor, "2");
    assert.deepEqual(states(), ["connecting", "connected", "reconnecting", "connected"]);
  });

  it("retries forever while the server is unreachable, and gives up when it rejects the request", async () => {
    const thread = liveThread(5);
    thread.overrides = [
      ...Array.from({ length: 20 }, () => () => Promise.reject(new TypeError("fetch failed"))),
      async () => new Response("no", { status: 503 }),
    ];
    const client = openAgent(thread, { attempts: Infinity });
    const { agent, statuses } = client;
    follow(client);
    await until(() => agent.state.last === "three", "the third run is complete");
    assert.equal(Math.max(...statuses.map(({ attempt }) => attempt ?? 0)), 21);

    const forbidden = liveThread(5);
    forbidden.overrides = [async () => Response.json({ detail: "Not yours." }, { status: 403 })];
    const rejected = openAgent(forbidden);
    follow(rejected);
    await until(() => rejected.agent.connection.status.state === "error", "the agent gives up");
    assert.deepEqual(rejected.agent.connection.status, { state: "error", reason: "HTTP 403: Not yours." });
    assert.equal(forbidden.requests.length, 1);
  });

  it("pauses for a run of the agent and resumes after it", async () => {
    const thread = liveThread(5);
    thread.entries = shortRun("one", 1);
    const client = openAgent(thread);
    const { agent, events, states } = client;
    follow(client);
    await until(() => agent.state.last === "one" && !agent.isRunning, "the first run is complete");

    agent.addMessage({ id: "u", role: "user", content: "hi" });
    thread.overrides = [async () => streamOf(thread, shortRun("two", 6).map(entryFrames).join(""))];
    thread.entries = runs;
    await agent.runAgent();
    await until(() => agent.state.last === "three", "the third run is complete");

    assert.deepEqual(agent.messages, [reply("one"), { id: "u", role: "user", content: "hi" }, reply("two"), reply("three")]);
    assert.deepEqual(thread.requests.map(({ path, cursor }) => [path, cursor]), [
      [EVENTS, null],
      ["/ag-ui/a", null],
      [EVENTS, "10"],
    ]);
    assert.deepEqual(thread.requests[1]?.body.messages.at(-1), { id: "u", role: "user", content: "hi" });
    assert.equal(events.filter(({ messageId, type }) => messageId === "two" && type === "TEXT_MESSAGE_START").length, 1);
    assert.deepEqual(states(), ["connecting", "connected"], "one stream replaces the other");
  });

  it("keeps a message added while another run is streaming", async () => {
    const thread = liveThread(5);
    thread.entries = runs.slice(0, 8);
    const client = openAgent(thread);
    const { agent } = client;
    follow(client);
    await until(() => agent.messages.at(-1)?.id === "two", "the second run has started");
    assert.equal(agent.isRunning, true);

    thread.overrides = [async () => streamOf(thread, shortRun("three", 11).map(entryFrames).join(""))];
    thread.entries = runs;
    thread.now = 15;
    agent.addMessage({ id: "u", role: "user", content: "hi" });
    await agent.runAgent();
    assert.ok(thread.requests[1]?.body.messages.some(({ id }) => id === "u"), "it was sent");
    // The agent missed the rest of the second run, so it reloads the thread.
    await until(() => thread.requests.length === 3 && agent.messages.find(({ id }) => id === "two")?.content === "hello two", "the second run is complete");
    assert.equal(thread.requests[2]?.cursor, null);
  });

  it("ends with an error when the events are invalid", async () => {
    const thread = liveThread(5);
    const invalid = [{ seq: 1, events: [{ type: "RUN_STARTED", threadId: "t", runId: "r" }, { type: "TEXT_MESSAGE_END", messageId: "x" }] }];
    thread.overrides = [async () => thread.stream({ preamble: "", entries: invalid })];
    const client = openAgent(thread);
    follow(client);
    await until(() => client.agent.connection.status.state === "error", "the agent gives up");
    assert.match(client.statuses.at(-1).reason, /TEXT_MESSAGE_END/);
    assert.equal(thread.requests.length, 1);
  });

  it("can be stopped and restarted immediately", async () => {
    const thread = liveThread(5);
    const client = openAgent(thread);
    const { agent } = client;
    follow(client)();
    follow(client);
    await until(() => agent.state.last === "three" && !agent.isRunning, "the third run is complete");
    assert.deepEqual(agent.messages, ALL);
  });
});

describe("reloading a thread", () => {
  it("updates what changed and never clears anything", async () => {
    const thread = new FakeThread(runs);
    thread.now = 5;
    const { agent, shown, busy } = openAgent(thread);
    await agent.connectAgent();
    shown.length = busy.length = 0;
    thread.now = 10;
    await agent.sync();
    assert.deepEqual(agent.messages, [reply("one"), reply("two")]);
    assert.deepEqual(agent.state, { last: "two" });
    assert.ok(shown.length > 0 && shown.every(({ messages, state }) => messages.length > 0 && state.last), "nothing was reset");
    assert.deepEqual(busy, [], "subscribers see no run");
    assert.equal(thread.requests.at(-1)?.cursor, null);
  });

  it("does not wait for an active run", async () => {
    const thread = liveThread(7);
    thread.entries = runs.slice(0, 7);
    const { agent } = openAgent(thread);
    await agent.sync();
    assert.deepEqual(agent.messages, [reply("one"), { id: "two", role: "assistant", content: "hello " }]);
    assert.equal(agent.connection.status.state, "closed");
  });

  it("works while following", async () => {
    const thread = liveThread(15);
    const client = openAgent(thread);
    const { agent } = client;
    follow(client);
    await until(() => agent.state.last === "three" && !agent.isRunning, "the thread is loaded");
    agent.setState({ last: "wrong" });
    await agent.sync();
    assert.deepEqual([agent.state, agent.messages], [{ last: "three" }, ALL]);
  });

  it("fails with the server's error for an unknown thread", async () => {
    const thread = new FakeThread([]);
    const missing = frame({ type: "RUN_ERROR", message: "Thread 'x' not found.", code: "404" });
    thread.overrides = [async () => streamOf(thread, missing)];
    const { agent } = openAgent(thread);
    await assert.rejects(agent.sync(), /Thread 'x' not found\./);
  });
});

/** @param {FakeThread} thread @param {string} preamble */
function streamOf(thread, preamble) {
  const { closes } = thread;
  thread.closes = true;
  const response = thread.stream({ preamble, entries: [] });
  thread.closes = closes;
  return response;
}
