import assert from "node:assert/strict";
import { afterEach, test } from "node:test";

import { longReply } from "../support/replies.js";
import { client, userInput } from "../support/sdk.js";
import { until } from "../support/until.js";
import { closeAll, openWireChat } from "../support/wire-chat.js";

afterEach(closeAll);

const conversation = [
  { type: "human", text: "hi" },
  { type: "ai", text: longReply },
];

test("the first message creates a thread, and the reply grows word by word", async () => {
  const chat = openWireChat({ assistantId: "slow_chat" });

  chat.send("hi");
  await chat.waitForWords(3);
  assert.ok(chat.isBusy());
  await chat.waitUntilIdle();

  assert.deepEqual(chat.shown(), conversation);
  const { values } = await client.threads.getState(chat.threadId());
  assert.equal(values.messages.at(-1).content, longReply);
  const lengths = chat.everShown.map((shown) => shown[1]?.text.length ?? 0);
  assert.ok(new Set(lengths).size > 20, "the reply was not streamed");
  assert.deepEqual(lengths, lengths.toSorted((a, b) => a - b), "the reply shrank");
});

test("an existing thread is shown and can be continued", async () => {
  const { thread_id: threadId } = await client.threads.create();
  await client.runs.wait(threadId, "chat", { input: userInput("before") });
  const chat = openWireChat({ assistantId: "chat", threadId });
  await until("the history is shown", () => chat.shown().length === 2);

  chat.send("again");
  await until("the new reply is shown", () => chat.shown().length === 4 && chat.reply() === "Hello from the model");
  await chat.waitUntilIdle();

  assert.deepEqual(
    chat.shown().map((message) => message.text),
    ["before", "Hello from the model", "again", "Hello from the model"],
  );
});

test("a tool call and its result appear once each", async () => {
  const chat = openWireChat({ assistantId: "tool_chat" });

  chat.send("what is 1 + 2?");
  await until("the sum is shown", () => chat.reply() === "The sum is 3");
  await chat.waitUntilIdle();

  assert.deepEqual(
    chat.shown().map((message) => message.type),
    ["human", "ai", "tool", "ai"],
  );
  assert.equal(chat.alert(), null);
  assert.deepEqual(chat.tools(), [{ tool: "add", status: "finished" }]);
});

test("a subgraph is found, and its messages grow", async () => {
  const chat = openWireChat({ assistantId: "slow_nested_chat" });

  chat.send("hi");
  await until("its message has started", () => chat.subgraphs()[0]?.text?.includes("ai: w0 w1"));
  assert.equal(chat.subgraphs()[0].status, "running");
  await chat.waitUntilIdle();

  const reply = longReply.split(" ").slice(0, 30).join(" ");
  await until("its message is complete", () => chat.subgraphs()[0].text === `human: hi, ai: ${reply}`);
  assert.equal(chat.subgraphs()[0].status, "complete");
  assert.equal(chat.reply(), reply);
});

test("an interrupt is shown, answered and cleared", async () => {
  const chat = openWireChat({ assistantId: "approve" });

  chat.send("go");
  await until("the interrupt is shown", () => chat.interrupts().length === 1);
  assert.deepEqual(chat.interrupts(), [{ question: "May I?" }]);
  await chat.waitUntilIdle();
  void chat.stream().respond("yes");
  await until("the reply is shown", () => chat.reply() === "Done as you said");
  await chat.waitUntilIdle();

  await until("the interrupt is cleared", () => chat.interrupts().length === 0);
  assert.equal((await client.threads.getState(chat.threadId())).values.answer, "yes");
});

test("an interrupt from before the page was opened can be answered", async () => {
  const { thread_id: threadId } = await client.threads.create();
  await client.runs.wait(threadId, "approve", { input: userInput("go") });
  const chat = openWireChat({ assistantId: "approve", threadId });

  await until("the interrupt is shown", () => chat.interrupts().length === 1);
  await chat.waitUntilIdle();
  void chat.stream().respond("yes", { interruptId: chat.stream().interrupts[0].id });
  await until("the reply is shown", () => chat.reply() === "Done as you said");
});

test("several interrupts are answered together", async () => {
  const chat = openWireChat({ assistantId: "approve_both" });

  chat.send("go");
  await until("both interrupts are shown", () => chat.interrupts().length === 2);
  await chat.waitUntilIdle();
  const answers = Object.fromEntries(chat.stream().interrupts.map((/** @type {any} */ each) => [each.id, each.value.question]));
  void chat.stream().respondAll(answers);
  await until("both answers are shown", () => chat.shown().length === 3);

  assert.deepEqual(chat.shown().slice(1).map((message) => message.text).sort(), ["first: first", "second: second"]);
  await until("the interrupts are cleared", () => chat.interrupts().length === 0);
});

test("stopping interrupts the run", async () => {
  const chat = openWireChat({ assistantId: "slow_chat" });

  chat.send("hi");
  await chat.waitForWords(3);
  void chat.stream().stop();
  await chat.waitUntilIdle();

  await until("the run is interrupted", async () => (await client.runs.list(chat.threadId()))[0].status === "interrupted");
  assert.ok(chat.reply().length < longReply.length);
});

test("a page that is reopened in the middle of a reply shows all of it", async () => {
  const first = openWireChat({ assistantId: "slow_chat" });
  first.send("hi");
  await first.waitForWords(5);
  const threadId = first.threadId();
  first.close();

  const second = openWireChat({ assistantId: "slow_chat", threadId });
  await second.waitForWords(60);
  await second.waitUntilIdle();

  assert.deepEqual(second.shown(), conversation);
  assert.equal((await client.runs.list(threadId)).length, 1);
});

test("a second page shows the run that the first one started", async () => {
  const first = openWireChat({ assistantId: "slow_chat" });
  first.send("hi");
  await first.waitForWords(3);
  const second = openWireChat({ assistantId: "slow_chat", threadId: first.threadId() });
  await second.waitForWords(10);
  assert.ok(first.isBusy());
  await Promise.all([first.waitUntilIdle(), second.waitUntilIdle()]);

  assert.deepEqual(first.shown(), conversation);
  assert.deepEqual(second.shown(), conversation);
});

test("a run of the classic API appears with its tokens", async () => {
  const chat = openWireChat({ assistantId: "slow_chat" });
  chat.send("hi");
  await chat.waitForWords(60);
  await chat.waitUntilIdle();
  chat.everShown.length = 0;

  await client.runs.create(chat.threadId(), "slow_chat", { input: userInput("again") });
  await until("the page is busy", () => chat.isBusy());
  await until("the second reply grows", () => chat.shown().length === 4);
  await chat.waitUntilIdle();

  assert.deepEqual(chat.shown().slice(2), [{ type: "human", text: "again" }, conversation[1]]);
  const lengths = chat.everShown.map((shown) => shown[3]?.text.length ?? 0);
  assert.ok(new Set(lengths).size > 20, "the reply was not streamed");
});

test("messages that are queued run one after another", async () => {
  const chat = openWireChat({ assistantId: "slow_chat" });

  chat.send("hi");
  await chat.waitForWords(3);
  chat.send("and then", { multitaskStrategy: "enqueue" });
  await until("the message is queued", () => chat.queued() === 1);
  await until("both replies are shown", () => chat.shown().length === 4, 60_000);
  await chat.waitUntilIdle();

  assert.equal(chat.queued(), 0);
  assert.deepEqual(chat.shown().map((message) => message.type), ["human", "ai", "human", "ai"]);
  const runs = await client.runs.list(chat.threadId());
  assert.deepEqual(runs.map((run) => run.status), ["success", "success"]);
});

test("a page can fork from the checkpoint before a message", async () => {
  const chat = openWireChat({ assistantId: "chat" });
  chat.send("first");
  await until("the reply is shown", () => chat.reply() === "Hello from the model");
  await chat.waitUntilIdle();
  chat.send("second");
  await until("both replies are shown", () => chat.shown().length === 4 && chat.reply() !== "");
  await chat.waitUntilIdle();

  await until("messages know a checkpoint", () => chat.parents().every((parent) => parent !== ""));
  const history = await client.threads.getHistory(chat.threadId());
  const before = history.find(({ values, next }) => values.messages?.length === 2 && next.length === 0)?.checkpoint.checkpoint_id;
  chat.send("edited", { forkFrom: before });
  await until("the edited message is shown", () => chat.shown()[2]?.text === "edited");
  await chat.waitUntilIdle();

  const { values } = await client.threads.getState(chat.threadId());
  assert.deepEqual(
    values.messages.map((/** @type {any} */ message) => message.content),
    ["first", "Hello from the model", "edited", "Hello from the model"],
  );
});

test("the error of a failing graph is shown", async () => {
  const chat = openWireChat({ assistantId: "fails" });

  chat.send("hi");
  await until("the error is shown", () => chat.alert());
  await chat.waitUntilIdle();

  assert.match(chat.alert() ?? "", /boom!/);
});
