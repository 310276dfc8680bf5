import assert from "node:assert/strict";
import { after, describe, test } from "node:test";

import { longAnswer } from "../support/answers.js";
import { closeAll, openChat } from "../support/chat.js";
import { client, says } from "../support/sdk.js";

after(closeAll);

const conversation = [
  { type: "human", text: "hi" },
  { type: "ai", text: longAnswer },
];

describe("in mid-answer", { concurrency: true }, () => {
  for (const fetchStateHistory of [false, true]) {
    const how = fetchStateHistory ? "with its history" : "from the stream alone";

    test(`a page that is opened again shows all of it, ${how}`, async () => {
      const { thread_id: threadId } = await client.threads.create();
      const options = { assistantId: "slow_chat", threadId, reconnectOnMount: true, fetchStateHistory };
      const first = openChat(options);
      first.say("hi");
      await first.showsWords(5);
      first.close();

      const second = openChat(options);
      await second.showsWords(60);
      await second.isDone();

      assert.deepEqual(second.shown(), conversation);
      for (const shown of second.everShown) assert.ok(shown.every((message) => conversation.some(startsLike(message))));
      const runs = await client.runs.list(threadId);
      assert.deepEqual(runs.map((run) => run.status), ["success"]);
    });
  }

  test("a page joins a run that somebody else started", async () => {
    const { thread_id: threadId } = await client.threads.create();
    const { run_id } = await client.runs.create(threadId, "slow_chat", {
      input: says("hi"),
      streamMode: ["values", "messages-tuple"],
      streamResumable: true,
    });
    const chat = openChat({ assistantId: "slow_chat", threadId });

    chat.join(run_id);
    await chat.showsWords(60);
    await chat.isDone();

    assert.deepEqual(chat.shown(), conversation);
  });
});

/** @param {{ type: string, text: string }} message */
function startsLike(message) {
  return (/** @type {{ type: string, text: string }} */ whole) =>
    whole.type === message.type && whole.text.startsWith(message.text);
}
