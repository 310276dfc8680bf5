import assert from "node:assert/strict";
import { afterEach, test } from "node:test";

import { closeAll, openChat } from "../support/chat.js";
import { client, userInput } from "../support/sdk.js";
import { until } from "../support/until.js";

afterEach(closeAll);

for (const fetchStateHistory of [false, true]) {
  const how = fetchStateHistory ? "with its history" : "from the stream alone";

  test(`an interrupt is shown, answered and cleared, ${how}`, async () => {
    const chat = openChat({ assistantId: "approve", fetchStateHistory });

    chat.send("go");
    await until("the interrupt is shown", () => chat.interrupt() === '{"question":"May I?"}');
    await chat.waitUntilIdle();
    chat.answer("yes");
    await until("the reply is shown", () => chat.reply() === "Done as you said");
    await chat.waitUntilIdle();

    await until("the interrupt is cleared", () => chat.interrupt() === null);
    assert.deepEqual(chat.shown(), [
      { type: "human", text: "go" },
      { type: "ai", text: "Done as you said" },
    ]);
  });
}

test("an interrupt from before the page was opened is shown and can be answered", async () => {
  const { thread_id: threadId } = await client.threads.create();
  await client.runs.wait(threadId, "approve", { input: userInput("go") });
  const chat = openChat({ assistantId: "approve", threadId, fetchStateHistory: true });

  await until("the interrupt is shown", () => chat.interrupt() === '{"question":"May I?"}');
  chat.answer("yes");
  await until("the reply is shown", () => chat.reply() === "Done as you said");
  await chat.waitUntilIdle();

  assert.equal((await client.threads.getState(threadId)).values.answer, "yes");
});

test("an interrupt can be answered with an empty input, as agent-chat-ui does", async () => {
  const chat = openChat({ assistantId: "approve", fetchStateHistory: true });

  chat.send("go");
  await until("the interrupt is shown", () => chat.interrupt() === '{"question":"May I?"}');
  await chat.waitUntilIdle();
  void chat.hook().submit({}, { command: { resume: "yes" } });
  await until("the reply is shown", () => chat.reply() === "Done as you said");
  await chat.waitUntilIdle();

  assert.equal(chat.alert(), null);
  await until("the interrupt is cleared", () => chat.interrupt() === null);
});
