import "./support/quiet.js";

import assert from "node:assert/strict";
import { describe, it } from "node:test";

import { HttpAgent } from "@ag-ui/client";

import { mirror } from "../dist/index.js";
import { openPage, until } from "./support/page.js";
import { shortRun } from "./support/story.js";
import { entryFrames, FakeThread } from "./support/thread.js";

const says = (/** @type {string} */ name) => ({ id: name, role: /** @type {const} */ ("assistant"), content: `hello ${name}` });
const runs = [...shortRun("one", 1), ...shortRun("two", 6)];

/** A page that only knows of its own runs. @param {(url: string, init: any) => Promise<Response>} [fetch] */
const stockPage = (fetch) => new HttpAgent({ url: "/ag-ui/a", threadId: "thread-1", ...(fetch && { fetch }) });

/** A followed thread on which the first run has been. */
async function followedThread() {
  const thread = new FakeThread(runs.slice(0, 5));
  thread.closes = false;
  thread.now = 5;
  const { agent } = openPage(thread);
  const unfollow = agent.follow();
  await until(() => agent.state.last === "one" && !agent.isRunning, "the first run is there");
  return { thread, agent, unfollow };
}

describe("a mirrored page", () => {
  it("is shown what is there and then what others do", async () => {
    const { thread, agent, unfollow } = await followedThread();
    const page = stockPage();
    const stop = mirror(agent, page);
    assert.deepEqual([page.messages, page.state], [[says("one")], { last: "one" }]);
    thread.entries = runs;
    thread.now = 5;
    await agent.sync();
    await until(() => page.state.last === "two", "the second run is shown");
    assert.deepEqual(page.messages, [says("one"), says("two")]);
    stop();
    agent.setState({ last: "later" });
    await new Promise((resolve) => setTimeout(resolve, 5));
    assert.deepEqual(page.state, { last: "two" });
    unfollow();
  });

  it("keeps a message of its own that has not been sent, and is left alone while it is busy", async () => {
    const { agent, unfollow } = await followedThread();
    const page = stockPage();
    page.addMessage({ id: "u", role: "user", content: "hi" });
    mirror(agent, page);
    agent.setMessages([says("one"), says("two")]);
    await new Promise((resolve) => setTimeout(resolve, 5));
    assert.deepEqual(page.messages.map(({ id }) => id), ["u"]);
    page.setMessages([]);
    page.isRunning = true;
    agent.setMessages([says("one"), says("two")]);
    await new Promise((resolve) => setTimeout(resolve, 5));
    assert.deepEqual(page.messages, []);
    unfollow();
  });

  it("drops an answer that the server has taken back, once its own run was cut off", async () => {
    const { agent, unfollow } = await followedThread();
    const page = stockPage(() => Promise.reject(new TypeError("terminated")));
    page.setMessages([says("one"), says("half an answer")]);
    mirror(agent, page);
    await assert.rejects(page.runAgent(), /terminated/);
    assert.deepEqual(page.messages, [says("one")]);
    unfollow();
  });

  it("is left alone on another thread", async () => {
    const { agent, unfollow } = await followedThread();
    const page = stockPage();
    page.threadId = "thread-2";
    mirror(agent, page);
    assert.deepEqual(page.messages, []);
    unfollow();
  });

  it("never shows less of its own run because the other is behind", async () => {
    const { thread, agent, unfollow } = await followedThread();
    const second = runs.slice(5).map(entryFrames).join("");
    const page = stockPage(async () => new Response(second, { headers: { "content-type": "text/event-stream" } }));
    mirror(agent, page);
    /** @type {string[]} */
    const shown = [];
    page.subscribe({ onMessagesChanged: ({ messages }) => void shown.push(String(messages.find(({ id }) => id === "two")?.content ?? "")) });
    await page.runAgent();
    thread.entries = runs;
    thread.now = 5;
    await agent.sync();
    await until(() => agent.state.last === "two" && !agent.isRunning, "the follower has caught up");
    assert.deepEqual(shown.toSorted((one, other) => one.length - other.length), shown);
    assert.deepEqual([page.messages, page.state], [agent.messages, agent.state]);
    unfollow();
  });

  it("is shown the rest of a run whose connection it lost", async () => {
    const { thread, agent, unfollow } = await followedThread();
    const page = stockPage(() => Promise.reject(new TypeError("terminated")));
    mirror(agent, page);
    await assert.rejects(page.runAgent(), /terminated/);
    thread.entries = runs;
    thread.now = 5;
    await agent.sync();
    await until(() => page.state.last === "two", "the rest is shown");
    assert.deepEqual(page.messages, [says("one"), says("two")]);
    unfollow();
  });
});
