import "./support/quiet.js";

import assert from "node:assert/strict";
import { describe, it } from "node:test";

import { HttpAgent } from "@ag-ui/client";

import { mirror } from "../dist/index.js";
import { openAgent, until } from "./support/agent.js";
import { shortRun } from "./support/sample-run.js";
import { entryFrames, FakeThread } from "./support/thread.js";

const reply = (/** @type {string} */ name) => ({ id: name, role: /** @type {const} */ ("assistant"), content: `hello ${name}` });
const runs = [...shortRun("one", 1), ...shortRun("two", 6)];

/** An agent that only sees its own runs. @param {(url: string, init: any) => Promise<Response>} [fetch] */
const stockAgent = (fetch) => new HttpAgent({ url: "/ag-ui/a", threadId: "thread-1", ...(fetch && { fetch }) });

/** A followed thread on which one run has ended. */
async function followedThread() {
  const thread = new FakeThread(runs.slice(0, 5));
  thread.closes = false;
  thread.now = 5;
  const { agent } = openAgent(thread);
  const unfollow = agent.follow();
  await until(() => agent.state.last === "one" && !agent.isRunning, "the first run is complete");
  return { thread, agent, unfollow };
}

describe("the target of a mirror", () => {
  it("gets the current thread and then the runs of other clients", async () => {
    const { thread, agent, unfollow } = await followedThread();
    const target = stockAgent();
    const stop = mirror(agent, target);
    assert.deepEqual([target.messages, target.state], [[reply("one")], { last: "one" }]);
    thread.entries = runs;
    thread.now = 5;
    await agent.sync();
    await until(() => target.state.last === "two", "the second run is copied");
    assert.deepEqual(target.messages, [reply("one"), reply("two")]);
    stop();
    agent.setState({ last: "later" });
    await new Promise((resolve) => setTimeout(resolve, 5));
    assert.deepEqual(target.state, { last: "two" });
    unfollow();
  });

  it("keeps its unsent messages, and is not changed while it is running", async () => {
    const { agent, unfollow } = await followedThread();
    const target = stockAgent();
    target.addMessage({ id: "u", role: "user", content: "hi" });
    mirror(agent, target);
    agent.setMessages([reply("one"), reply("two")]);
    await new Promise((resolve) => setTimeout(resolve, 5));
    assert.deepEqual(target.messages.map(({ id }) => id), ["u"]);
    target.setMessages([]);
    target.isRunning = true;
    agent.setMessages([reply("one"), reply("two")]);
    await new Promise((resolve) => setTimeout(resolve, 5));
    assert.deepEqual(target.messages, []);
    unfollow();
  });

  it("drops a reply that the server rolled back after its own run was cut off", async () => {
    const { agent, unfollow } = await followedThread();
    const target = stockAgent(() => Promise.reject(new TypeError("terminated")));
    target.setMessages([reply("one"), reply("half a reply")]);
    mirror(agent, target);
    await assert.rejects(target.runAgent(), /terminated/);
    assert.deepEqual(target.messages, [reply("one")]);
    unfollow();
  });

  it("is not changed while it is on another thread", async () => {
    const { agent, unfollow } = await followedThread();
    const target = stockAgent();
    target.threadId = "thread-2";
    mirror(agent, target);
    assert.deepEqual(target.messages, []);
    unfollow();
  });

  it("keeps all of its own run while the source is behind", async () => {
    const { thread, agent, unfollow } = await followedThread();
    const second = runs.slice(5).map(entryFrames).join("");
    const target = stockAgent(async () => new Response(second, { headers: { "content-type": "text/event-stream" } }));
    mirror(agent, target);
    /** @type {string[]} */
    const shown = [];
    target.subscribe({ onMessagesChanged: ({ messages }) => void shown.push(String(messages.find(({ id }) => id === "two")?.content ?? "")) });
    await target.runAgent();
    thread.entries = runs;
    thread.now = 5;
    await agent.sync();
    await until(() => agent.state.last === "two" && !agent.isRunning, "the source has caught up");
    assert.deepEqual(shown.toSorted((one, other) => one.length - other.length), shown);
    assert.deepEqual([target.messages, target.state], [agent.messages, agent.state]);
    unfollow();
  });

  it("gets the rest of a run whose connection it lost", async () => {
    const { thread, agent, unfollow } = await followedThread();
    const target = stockAgent(() => Promise.reject(new TypeError("terminated")));
    mirror(agent, target);
    await assert.rejects(target.runAgent(), /terminated/);
    thread.entries = runs;
    thread.now = 5;
    await agent.sync();
    await until(() => target.state.last === "two", "the rest is copied");
    assert.deepEqual(target.messages, [reply("one"), reply("two")]);
    unfollow();
  });
});
