import "./support/quiet.js";
import "./support/dom.js";

import assert from "node:assert/strict";
import { afterEach, describe, it } from "node:test";

import { act, cleanup, renderHook } from "@testing-library/react";

import { ThreadwireAgent } from "../dist/index.js";
import { useAgentConnection } from "../dist/react.js";
import { finished, FakeThread, started } from "./support/thread.js";

const THREAD = "thread-1";

/** A thread whose runs each set `points`. @param {...number} points */
function threadWith(...points) {
  const entries = points.map((value, index) => ({
    seq: index + 1,
    events: [started(`run-${index}`), { type: "STATE_SNAPSHOT", snapshot: { points: value } }, finished(`run-${index}`)],
  }));
  return new FakeThread(entries);
}

/** @param {FakeThread} thread @param {import("../dist/react.js").AgentConnectionOptions} [options] */
function mount(thread, options) {
  const agent = new ThreadwireAgent({
    url: "http://fake.invalid/ag-ui/fund",
    threadId: THREAD,
    fetch: thread.fetch,
    retry: { firstDelay: 5, maxDelay: 10 },
  });
  /** Every combination of status and points that was rendered. @type {[string, unknown][]} */
  const rendered = [];
  const { result, unmount } = renderHook(() => {
    const connection = useAgentConnection(agent, options);
    rendered.push([connection.status.state, connection.state["points"]]);
    return connection;
  });
  return { agent, result, unmount, rendered };
}

/** @param {() => boolean} condition @param {string} what */
async function until(condition, what) {
  const deadline = Date.now() + 5_000;
  while (!condition()) {
    if (Date.now() > deadline) throw new Error(`${what}: it did not happen in time`);
    await act(() => new Promise((resolve) => setTimeout(resolve, 5)));
  }
}

describe("useAgentConnection", () => {
  afterEach(cleanup);

  it("connects on mount and shows the thread", async () => {
    const thread = threadWith(1);
    thread.closes = false;
    const { result, rendered } = mount(thread);
    assert.equal(rendered[0]?.[0], "connecting");
    await until(() => result.current.status.state === "connected" && result.current.state["points"] === 1, "connected");
  });

  it("syncs after connecting, unless it is told not to", async () => {
    for (const sync of [true, false]) {
      const thread = threadWith(1);
      thread.closes = false;
      const { result, unmount } = mount(thread, { sync });
      await until(() => result.current.state["points"] === 1, "the state is shown");
      const connects = () => thread.requests.filter(({ path }) => path.endsWith("/connect")).length;
      if (sync) await until(() => connects() === 1, "a sync");
      else assert.equal(connects(), 0);
      unmount();
    }
  });

  it("reconnects after a drop without resetting what is visible", async () => {
    const thread = threadWith(1);
    thread.closes = false;
    thread.cuts = [230];
    const { result, rendered } = mount(thread, { sync: false });
    await until(() => rendered.some(([state]) => state === "reconnecting"), "the drop");
    await until(() => result.current.status.state === "connected", "connected again");
    const first = rendered.findIndex(([, points]) => points === 1);
    assert.ok(rendered.slice(first).every(([, points]) => points === 1), JSON.stringify(rendered));
  });

  it("reports why a thread cannot be shown, and connects again on retry", async () => {
    const thread = threadWith(1);
    thread.closes = false;
    thread.overrides = [async () => Response.json({ detail: "Thread not found" }, { status: 404 })];
    const { result } = mount(thread);
    await until(() => result.current.status.state === "error", "the error");
    assert.match(JSON.stringify(result.current.status), /HTTP 404: Thread not found/);
    act(() => result.current.retry());
    await until(() => result.current.status.state === "connected", "connected");
  });

  it("reports the error of a run, until it is dismissed", async () => {
    const thread = new FakeThread([{ seq: 1, events: [started(), { type: "RUN_ERROR", message: "kaboom", code: "ValueError" }] }]);
    thread.closes = false;
    thread.now = 0;
    const { result } = mount(thread, { sync: false });
    await until(() => result.current.error !== undefined, "the error");
    assert.deepEqual(result.current.error, { message: "kaboom", code: "ValueError" });
    act(() => result.current.dismissError());
    assert.equal(result.current.error, undefined);
  });

  it("times out if there is no connection, and recovers", async () => {
    const thread = threadWith(1);
    thread.closes = false;
    let reachable = false;
    const { fetch } = thread;
    thread.fetch = (url, init) => (reachable ? fetch(url, init) : Promise.reject(new TypeError("fetch failed")));
    const { result } = mount(thread, { timeout: 30 });
    await until(() => result.current.status.state === "error", "the timeout");
    assert.deepEqual(result.current.status, { state: "error", reason: "No connection within 0.03 s" });
    reachable = true;
    await until(() => result.current.status.state === "connected", "connected");
  });

  it("waits until the thread is ready", async () => {
    const thread = threadWith(1);
    thread.closes = false;
    /** @type {(value?: unknown) => void} */
    let create = () => {};
    const ready = new Promise((resolve) => void (create = resolve));
    const { result } = mount(thread, { ready });
    await act(() => new Promise((resolve) => setTimeout(resolve, 20)));
    assert.equal(thread.requests.length, 0);
    create();
    await until(() => result.current.status.state === "connected", "connected");
  });

  it("connects once without following, and is then connected", async () => {
    const thread = threadWith(1);
    const { result } = mount(thread, { follow: false, sync: false });
    await until(() => result.current.state["points"] === 1, "the state");
    await until(() => result.current.status.state === "connected", "connected");
    assert.deepEqual(thread.requests.map(({ path }) => path.split("/").at(-1)), ["connect"]);
  });

  it("stops streaming when it is unmounted, and stops no run", async () => {
    const thread = threadWith(1);
    thread.closes = false;
    const { agent, result, unmount } = mount(thread);
    await until(() => result.current.status.state === "connected", "connected");
    unmount();
    await until(() => agent.connection.status.state === "closed", "closed");
    assert.ok(thread.requests.every(({ path }) => !path.includes("/stop/")));
  });
});
