import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { describe, it } from "node:test";

import { until } from "../support/until.js";
import { openClient, runInBackground, unreliableNetwork } from "./client.js";

const TEXT = "one two three four five six seven eight nine ten";
const userInput = (/** @type {string} */ text) => ({ messages: [{ type: "human", content: text }] });

describe("a run", () => {
  it("survives several dropped connections, and is posted once", async () => {
    for (let first = 1; first < 1700; first += 170) {
      const network = unreliableNetwork([first, 900, 1200, 900]);
      const client = openClient(network);
      await client.send(TEXT, 0.005);
      assert.deepEqual(client.agent.messages.map(({ role, content }) => [role, content]), [
        ["user", TEXT],
        ["assistant", `You said: ${TEXT}`],
      ]);
      const posted = network.requests.filter(({ path }) => path.endsWith("/ag-ui/chat"));
      assert.equal(posted.length, 1, `cut at ${first}`);
      assert.ok(client.states.includes("reconnecting"));
    }
  });

  it("can be stopped", async () => {
    const client = openClient();
    const running = client.send(TEXT, 0.2);
    await until("the reply has started", () => client.reply().includes("one"));
    client.agent.abortRun();
    await running;
    assert.equal(client.events.at(-1).type, "RUN_FINISHED");
    assert.ok(!client.reply().includes("ten"));
    assert.equal(await client.agent.stop(), false, "there is no run left to stop");
  });

  it("continues after the client detaches, and another client gets the rest", async () => {
    const client = openClient();
    const running = client.send(TEXT, 0.05);
    await until("the reply has started", () => client.reply().includes("one"));
    await client.agent.detachActiveRun();
    await running;
    const other = openClient({ threadId: client.threadId });
    await other.agent.connectAgent();
    assert.equal(other.reply(), `You said: ${TEXT}`);
  });
});

describe("a thread", () => {
  it("is loaded by another client", async () => {
    const client = openClient();
    await client.send("hello");
    const other = openClient({ threadId: client.threadId });
    await other.agent.connectAgent();
    assert.deepEqual(other.agent.messages, client.agent.messages);
    assert.deepEqual(other.states, ["connecting", "connected", "closed"]);
  });

  it("that does not exist fails with its status", async () => {
    const client = openClient();
    await client.agent.connectAgent();
    assert.deepEqual(client.events.map(({ type, code }) => [type, code]), [["RUN_ERROR", "404"]]);
    await assert.rejects(client.agent.sync(), /not found/i);
  });

  it("is followed across runs of other clients, over an unreliable network", async () => {
    const threadId = randomUUID();
    await runInBackground(threadId, userInput("first"));
    const network = unreliableNetwork([700, 900, 1100, 1300, 1500]);
    const client = openClient({ threadId, ...network });
    const unfollow = client.agent.follow();
    try {
      await until("the first run has ended", () => client.reply() === "You said: first");
      for (const text of ["second", TEXT]) {
        await runInBackground(threadId, { ...userInput(text), delay: 0.005 });
        await until(`the run with ${text} has ended`, () => client.reply() === `You said: ${text}` && !client.agent.isRunning);
      }
      assert.deepEqual(client.agent.messages.map(({ content }) => content), [
        "first",
        "You said: first",
        "second",
        "You said: second",
        TEXT,
        `You said: ${TEXT}`,
      ]);
      await client.send("mine");
      await runInBackground(threadId, userInput("theirs"));
      await until("their run comes after mine", () => client.reply() === "You said: theirs");
      assert.deepEqual(client.agent.messages.slice(6).map(({ content }) => content), ["mine", "You said: mine", "theirs", "You said: theirs"]);
      const other = openClient({ threadId });
      await other.agent.connectAgent();
      await until("the run has ended", () => !client.agent.isRunning);
      assert.deepEqual(client.agent.messages, other.agent.messages);
      assert.deepEqual(client.agent.state, other.agent.state);
    } finally {
      unfollow();
    }
  });

  it("is reloaded without being cleared", async () => {
    const client = openClient();
    await client.send("one");
    const other = openClient({ threadId: client.threadId });
    await other.send("two");
    const lengths = [client.agent.messages.length];
    client.agent.subscribe({ onMessagesChanged: ({ messages }) => void lengths.push(messages.length) });
    await client.agent.sync();
    assert.deepEqual(client.agent.messages, other.agent.messages);
    assert.deepEqual(lengths.toSorted(), lengths, "never fewer than before");
  });
});
