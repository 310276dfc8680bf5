import assert from "node:assert/strict";
import { after, test } from "node:test";

import { longReply, numberedWords } from "../support/replies.js";
import { closeAll, openChat } from "../support/chat.js";
import { collect, client } from "../support/sdk.js";
import { until } from "../support/until.js";

after(closeAll);

const KILL = "KILL THE SERVER\n"; // read by tests/e2e/test_js_clients.py, which restarts the server on the same data

/** Agents whose replies are cut off, and the replies that must be shown in the end. A plain page does not rejoin. */
const conversations = [
  { title: "a reply", assistantId: "slow_chat", replies: [longReply] },
  { title: "a reply with the same id in both attempts", assistantId: "same_id_chat", replies: [longReply] },
  { title: "a second reply", assistantId: "two_replies", replies: [numberedWords("a", 5), numberedWords("b", 60)] },
  { title: "a reply on a plain page", assistantId: "slow_chat", replies: [longReply], plain: true },
];

test("killing the server in the middle of a reply", async (context) => {
  const opened = await Promise.all(
    conversations.map(async ({ assistantId, plain }) => {
      const { thread_id: threadId } = await client.threads.create();
      return { threadId, chat: openChat({ assistantId, threadId, reconnectOnMount: !plain }) };
    }),
  );
  for (const { chat } of opened) chat.send("hi");
  await Promise.all(opened.map(({ chat }) => chat.waitForWords(10)));
  process.stdout.write(KILL);
  await Promise.all(opened.map(({ chat }) => chat.waitUntilIdle()));

  for (const [index, { title, assistantId, replies }] of conversations.entries()) {
    const { chat, threadId } = opened[index];
    const expected = [{ type: "human", text: "hi" }, ...replies.map((text) => ({ type: "ai", text }))];

    await context.test(`${title} is complete in the end`, () => {
      assert.deepEqual(chat.shown(), expected);
      assert.equal(chat.alert(), null);
    });

    await context.test(`${title} is never duplicated`, () => {
      assertAlwaysPrefixOf(expected, chat.everShown);
    });

    await context.test(`${title} is not duplicated when both attempts are replayed`, async () => {
      const [{ run_id }] = await client.runs.list(threadId);
      let finished = false;
      const replay = openChat({ assistantId, threadId, onFinish: () => (finished = true) });
      replay.join(run_id);
      await until("both attempts have been shown", () => finished && !replay.isBusy());
      assert.deepEqual(replay.shown(), expected);
      assertAlwaysPrefixOf(expected, replay.everShown);
    });

    await context.test(`${title} takes one run and two attempts`, async () => {
      const runs = await client.runs.list(threadId);
      assert.deepEqual(runs.map((run) => run.status), ["success"]);
      const parts = await collect(client.runs.joinStream(threadId, runs[0].run_id, { lastEventId: "-1" }));
      const attempts = parts.filter((part) => part.event === "metadata").map((part) => part.data.attempt);
      assert.deepEqual(attempts, [1, 2]);
    });

    await context.test(`${title} is stored once`, async () => {
      const { values } = await client.threads.getState(threadId);
      assert.deepEqual(
        values.messages.map((/** @type {any} */ message) => message.content),
        expected.map((message) => message.text),
      );
    });
  }
});

/**
 * Everything shown at any time is a prefix of what is shown in the end.
 *
 * @param {import("../support/chat.js").Shown[]} complete
 * @param {import("../support/chat.js").Shown[][]} history
 */
function assertAlwaysPrefixOf(complete, history) {
  assert.ok(history.length > 0);
  for (const shown of history) {
    assert.ok(shown.length <= complete.length, JSON.stringify(shown));
    for (const [index, message] of shown.entries()) {
      assert.ok(complete[index].text.startsWith(message.text), JSON.stringify(shown));
    }
  }
}
