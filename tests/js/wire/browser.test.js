import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { useBrowserContext } from "../support/browser.js";
import { longReply } from "../support/replies.js";
import { client } from "../support/sdk.js";
import { until } from "../support/until.js";
import { openPage, servePage } from "../support/wire-browser.js";

/** @type {() => void} */
let stopServing;
before(async () => void (stopServing = await servePage()));
after(() => stopServing());
const context = useBrowserContext();
const otherContext = async () => /** @type {import("playwright-core").Browser} */ (context().browser()).newContext();

for (const transport of ["sse", "websocket"]) {
  test(`a new thread streams its reply, a reload in the middle shows all of it, over ${transport}`, async () => {
    const chat = await openPage(context(), { assistantId: "slow_chat", transport });
    await chat.send("hi");
    await chat.waitForText("w5");
    const threadId = await chat.threadId();

    const again = await openPage(context(), { assistantId: "slow_chat", threadId, transport });
    await again.waitForText("w20");
    await again.waitForText(longReply);
    await Promise.all([chat.waitUntilIdle(), again.waitUntilIdle()]);

    assert.deepEqual(await again.messages(), ["hi", longReply]);
    assert.deepEqual(await chat.messages(), ["hi", longReply]);
    assert.equal((await client.runs.list(threadId)).length, 1);
  });
}

for (const transport of ["sse", "websocket"]) {
  test(`a second page shows the runs of the first, and the first those of the second, over ${transport}`, async () => {
    const first = await openPage(context(), { assistantId: "slow_chat", transport });
    await first.send("hi");
    await first.waitForText("w3");
    const threadId = await first.threadId();
    const other = await otherContext();
    const second = await openPage(other, { assistantId: "slow_chat", threadId, transport });
    await second.waitForText("w10");
    await Promise.all([first.waitUntilIdle(), second.waitUntilIdle()]);

    await second.send("again");
    await until("the first page shows the start of the second reply", async () => {
      const [, , question, reply] = await first.messages();
      return question === "again" && reply?.startsWith("w0 w1") && !reply.endsWith("w59");
    });
    await second.call("stop");
    await Promise.all([first.waitUntilIdle(), second.waitUntilIdle()]);
    await until("the second run is interrupted", async () => (await client.runs.list(threadId))[0].status === "interrupted");
    assert.deepEqual((await first.messages()).slice(0, 3), ["hi", longReply, "again"]);
    assert.equal((await client.runs.list(threadId)).length, 2);
  });

  test(`a page forks from the checkpoint before a message, over ${transport}`, async () => {
    const chat = await openPage(context(), { assistantId: "chat", transport });
    for (const [at, text] of ["first", "second"].entries()) {
      await chat.send(text);
      await until(`${text} is answered`, async () => (await chat.messages())[2 * at + 1] === "Hello from the model");
      await chat.waitUntilIdle();
    }
    const threadId = await chat.threadId();
    const history = await client.threads.getHistory(threadId);
    const afterFirst = history.find(({ values, next }) => values.messages?.length === 2 && next.length === 0);
    await chat.send("edited", { forkFrom: afterFirst?.checkpoint.checkpoint_id });
    const expected = ["first", "Hello from the model", "edited", "Hello from the model"];
    await until("the page shows the branch", async () => (await chat.messages()).join() === expected.join());
    await chat.waitUntilIdle();

    const reloaded = await openPage(context(), { assistantId: "chat", threadId, transport });
    await until("a reloaded page shows the same", async () => (await reloaded.messages()).join() === expected.join());
    const { values } = await client.threads.getState(threadId);
    assert.deepEqual(values.messages.map((/** @type {any} */ message) => message.content), expected);
  });

  test(`a page repeats a reply from the checkpoint that the page knows, over ${transport}`, async () => {
    const chat = await openPage(context(), { assistantId: "chat", transport });
    await chat.send("hi");
    await until("the reply is shown", async () => (await chat.messages())[1] === "Hello from the model");
    await chat.waitUntilIdle();
    const [, before] = await until("the page knows the checkpoint before the reply", async () => {
      const parents = await chat.parents();
      return parents[1] && parents;
    });
    await chat.call("submit", null, { forkFrom: before });
    const threadId = await chat.threadId();
    await until("the second run has ended", async () => {
      const [latest, first] = await client.runs.list(threadId);
      return first && latest.status === "success";
    });
    await chat.waitUntilIdle();
    assert.deepEqual(await chat.messages(), ["hi", "Hello from the model"]);
  });
}

test("tools, a subgraph and an error", async () => {
  const tools = await openPage(context(), { assistantId: "tool_chat" });
  await tools.send("what is 1 + 2?");
  await tools.waitForText("The sum is 3");
  await tools.page.locator('[data-tool="add"][data-status="finished"]').waitFor();

  const nested = await openPage(context(), { assistantId: "slow_nested_chat" });
  await nested.send("hi");
  await nested.page.locator("figure", { hasText: "ai: w0 w1" }).waitFor();
  await nested.waitUntilIdle();

  const failing = await openPage(context(), { assistantId: "fails" });
  await failing.send("hi");
  await failing.page.getByRole("alert").filter({ hasText: "boom!" }).waitFor();
});

test("interrupts are answered, one and several", async () => {
  const one = await openPage(context(), { assistantId: "approve" });
  await one.send("go");
  await one.page.getByRole("dialog").waitFor();
  await one.call("respond", "yes");
  await one.waitForText("Done as you said");
  await until("the interrupt is cleared", async () => (await one.interrupts()).length === 0);

  const both = await openPage(context(), { assistantId: "approve_both" });
  await both.send("go");
  await until("both interrupts are shown", async () => (await both.interrupts()).length === 2);
  await both.waitUntilIdle();
  const ids = await both.page.getByRole("dialog").evaluateAll((all) => all.map((each) => each.dataset.id ?? ""));
  await both.call("respondAll", Object.fromEntries(ids.map((id) => [id, "ok"])));
  await both.waitForText("second: ok");
});

test("a queued message runs, and can be stopped", async () => {
  const chat = await openPage(context(), { assistantId: "slow_chat" });
  await chat.send("hi");
  await chat.waitForText("w3");
  await chat.send("and then", { multitaskStrategy: "enqueue" });
  await chat.waitForText("and then");
  await until("the second reply has started", async () => (await chat.messages()).length === 4, 30_000);
  await chat.call("stop");
  await chat.waitUntilIdle();
  const threadId = await chat.threadId();
  await until("the second run is interrupted", async () => (await client.runs.list(threadId))[0].status === "interrupted");
});
