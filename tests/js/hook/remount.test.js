import assert from "node:assert/strict";
import { after, describe, test } from "node:test";

import { longReply } from "../support/replies.js";
import { closeAll, openChat } from "../support/chat.js";
import { client, userInput } from "../support/sdk.js";

after(closeAll);

const conversation = [
  { type: "human", text: "hi" },
  { type: "ai", text: longReply },
];

describe("in the middle of a reply", { concurrency: true }, () => {
  for (const fetchStateHistory of [false, true]) {
    const how = fetchStateHistory ? "with its history" : "from the stream alone";

    test(`a reopened page shows the complete reply, ${how}`, async () => {
      const { thread_id: threadId } = await client.threads.create();
      const options = { assistantId: "slow_chat", threadId, reconnectOnMount: true, fetchStateHistory };
      const first = openChat(options);
      first.send("hi");
      await first.waitForWords(5);
      first.close();

      const second = openChat(options);
      await second.waitForWords(60);
      await second.waitUntilIdle();

      assert.deepEqual(second.shown(), conversation);
      for (const shown of second.everShown) assert.ok(shown.every((message) => conversation.some(isPrefixOf(message))));
      const runs = await client.runs.list(threadId);
      assert.deepEqual(runs.map((run) => run.status), ["success"]);
    });
  }

  test("a page joins a run that another client started", async () => {
    const { thread_id: threadId } = await client.threads.create();
    const { run_id } = await client.runs.create(threadId, "slow_chat", {
      input: userInput("hi"),
      streamMode: ["values", "messages-tuple"],
      streamResumable: true,
    });
    const chat = openChat({ assistantId: "slow_chat", threadId });

    chat.join(run_id);
    await chat.waitForWords(60);
    await chat.waitUntilIdle();

    assert.deepEqual(chat.shown(), conversation);
  });
});

/** @param {{ type: string, text: string }} message */
function isPrefixOf(message) {
  return (/** @type {{ type: string, text: string }} */ complete) =>
    complete.type === message.type && complete.text.startsWith(message.text);
}
