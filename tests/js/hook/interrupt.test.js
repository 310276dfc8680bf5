import assert from "node:assert/strict";
import { afterEach, test } from "node:test";

import { closeAll, openChat } from "../support/chat.js";
import { client, says } from "../support/sdk.js";
import { until } from "../support/until.js";

afterEach(closeAll);

for (const fetchStateHistory of [false, true]) {
  const how = fetchStateHistory ? "with its history" : "from the stream alone";

  test(`a question is shown, answered and gone, ${how}`, async () => {
    const chat = openChat({ assistantId: "approve", fetchStateHistory });

    chat.say("go");
    await until("the question is shown", () => chat.question() === '{"question":"May I?"}');
    await chat.isDone();
    chat.reply("yes");
    await until("the answer is shown", () => chat.answer() === "Done as you said");
    await chat.isDone();

    await until("the question is gone", () => chat.question() === null);
    assert.deepEqual(chat.shown(), [
      { type: "human", text: "go" },
      { type: "ai", text: "Done as you said" },
    ]);
  });
}

test("a question asked before the page was opened is shown and can be answered", async () => {
  const { thread_id: threadId } = await client.threads.create();
  await client.runs.wait(threadId, "approve", { input: says("go") });
  const chat = openChat({ assistantId: "approve", threadId, fetchStateHistory: true });

  await until("the question is shown", () => chat.question() === '{"question":"May I?"}');
  chat.reply("yes");
  await until("the answer is shown", () => chat.answer() === "Done as you said");
  await chat.isDone();

  assert.equal((await client.threads.getState(threadId)).values.answer, "yes");
});

test("a question is answered by a page that sends an empty input with its answer, as agent-chat-ui does", async () => {
  const chat = openChat({ assistantId: "approve", fetchStateHistory: true });

  chat.say("go");
  await until("the question is shown", () => chat.question() === '{"question":"May I?"}');
  await chat.isDone();
  void chat.hook().submit({}, { command: { resume: "yes" } });
  await until("the answer is shown", () => chat.answer() === "Done as you said");
  await chat.isDone();

  assert.equal(chat.alert(), null);
  await until("the question is gone", () => chat.question() === null);
});
