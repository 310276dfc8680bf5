import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { describe, it } from "node:test";

import { until } from "../support/until.js";
import { brittle, openPage, runInBackground } from "./page.js";

const TEXT = "one two three four five six seven eight nine ten";
const says = (/** @type {string} */ text) => ({ messages: [{ type: "human", content: text }] });

describe("a run", () => {
  it("survives a network that breaks again and again, and is posted once", async () => {
    for (let first = 1; first < 1700; first += 170) {
      const network = brittle([first, 900, 1200, 900]);
      const page = openPage(network);
      await page.say(TEXT, 0.005);
      assert.deepEqual(page.agent.messages.map(({ role, content }) => [role, content]), [
        ["user", TEXT],
        ["assistant", `You said: ${TEXT}`],
      ]);
      const posted = network.requests.filter(({ path }) => path.endsWith("/ag-ui/chat"));
      assert.equal(posted.length, 1, `cut at ${first}`);
      assert.ok(page.states.includes("reconnecting"));
    }
  });

  it("stops when it is stopped", async () => {
    const page = openPage();
    const running = page.say(TEXT, 0.2);
    await until("it has begun to answer", () => page.answer().includes("one"));
    page.agent.abortRun();
    await running;
    assert.equal(page.events.at(-1).type, "RUN_FINISHED");
    assert.ok(!page.answer().includes("ten"));
    assert.equal(await page.agent.stop(), false, "there is nothing left to stop");
  });

  it("goes on when nobody looks, and another page sees its rest", async () => {
    const page = openPage();
    const running = page.say(TEXT, 0.05);
    await until("it has begun to answer", () => page.answer().includes("one"));
    await page.agent.detachActiveRun();
    await running;
    const other = openPage({ threadId: page.threadId });
    await other.agent.connectAgent();
    assert.equal(other.answer(), `You said: ${TEXT}`);
  });
});

describe("a thread", () => {
  it("is shown as it is", async () => {
    const page = openPage();
    await page.say("hello");
    const other = openPage({ threadId: page.threadId });
    await other.agent.connectAgent();
    assert.deepEqual(other.agent.messages, page.agent.messages);
    assert.deepEqual(other.states, ["connecting", "connected", "closed"]);
  });

  it("that is not there is told with its status", async () => {
    const page = openPage();
    await page.agent.connectAgent();
    assert.deepEqual(page.events.map(({ type, code }) => [type, code]), [["RUN_ERROR", "404"]]);
    await assert.rejects(page.agent.sync(), /not found/i);
  });

  it("is followed over runs that nobody here started, through a breaking network", async () => {
    const threadId = randomUUID();
    await runInBackground(threadId, says("first"));
    const network = brittle([700, 900, 1100, 1300, 1500]);
    const page = openPage({ threadId, ...network });
    const unfollow = page.agent.follow();
    try {
      await until("the first run is shown", () => page.answer() === "You said: first");
      for (const text of ["second", TEXT]) {
        await runInBackground(threadId, { ...says(text), delay: 0.005 });
        await until(`the run about ${text} is shown`, () => page.answer() === `You said: ${text}` && !page.agent.isRunning);
      }
      assert.deepEqual(page.agent.messages.map(({ content }) => content), [
        "first",
        "You said: first",
        "second",
        "You said: second",
        TEXT,
        `You said: ${TEXT}`,
      ]);
      await page.say("mine");
      await runInBackground(threadId, says("theirs"));
      await until("their run is shown behind mine", () => page.answer() === "You said: theirs");
      assert.deepEqual(page.agent.messages.slice(6).map(({ content }) => content), ["mine", "You said: mine", "theirs", "You said: theirs"]);
      const other = openPage({ threadId });
      await other.agent.connectAgent();
      await until("the run is over", () => !page.agent.isRunning);
      assert.deepEqual(page.agent.messages, other.agent.messages);
      assert.deepEqual(page.agent.state, other.agent.state);
    } finally {
      unfollow();
    }
  });

  it("is read anew without being emptied", async () => {
    const page = openPage();
    await page.say("one");
    const other = openPage({ threadId: page.threadId });
    await other.say("two");
    const lengths = [page.agent.messages.length];
    page.agent.subscribe({ onMessagesChanged: ({ messages }) => void lengths.push(messages.length) });
    await page.agent.sync();
    assert.deepEqual(page.agent.messages, other.agent.messages);
    assert.deepEqual(lengths.toSorted(), lengths, "never fewer than before");
  });
});
