import assert from "node:assert/strict";
import { after, test } from "node:test";

import { longAnswer, words } from "../support/answers.js";
import { closeAll, openChat } from "../support/chat.js";
import { all, client } from "../support/sdk.js";
import { until } from "../support/until.js";

after(closeAll);

const KILL = "KILL THE SERVER\n"; // read by tests/e2e/test_js_clients.py, which starts it again on the same data

/** What is killed in mid-answer, and the answers that must be shown in the end. A plain page did not ask to rejoin. */
const conversations = [
  { title: "an answer", assistantId: "slow_chat", answers: [longAnswer] },
  { title: "an answer whose id is the same again", assistantId: "same_id_chat", answers: [longAnswer] },
  { title: "a second answer", assistantId: "two_answers", answers: [words("a", 5), words("b", 60)] },
  { title: "an answer on a plain page", assistantId: "slow_chat", answers: [longAnswer], plain: true },
];

test("a server killed in mid-answer", async (context) => {
  const opened = await Promise.all(
    conversations.map(async ({ assistantId, plain }) => {
      const { thread_id: threadId } = await client.threads.create();
      return { threadId, chat: openChat({ assistantId, threadId, reconnectOnMount: !plain }) };
    }),
  );
  for (const { chat } of opened) chat.say("hi");
  await Promise.all(opened.map(({ chat }) => chat.showsWords(10)));
  process.stdout.write(KILL);
  await Promise.all(opened.map(({ chat }) => chat.isDone()));

  for (const [index, { title, assistantId, answers }] of conversations.entries()) {
    const { chat, threadId } = opened[index];
    const expected = [{ type: "human", text: "hi" }, ...answers.map((text) => ({ type: "ai", text }))];

    await context.test(`${title} is whole in the end`, () => {
      assert.deepEqual(chat.shown(), expected);
      assert.equal(chat.alert(), null);
    });

    await context.test(`${title} is at no moment shown doubled`, () => {
      assertAlwaysPartOf(expected, chat.everShown);
    });

    await context.test(`${title} is not doubled either for one who sees it all again`, async () => {
      const [{ run_id }] = await client.runs.list(threadId);
      let finished = false;
      const later = openChat({ assistantId, threadId, onFinish: () => (finished = true) });
      later.join(run_id);
      await until("both attempts have been shown", () => finished && !later.busy());
      assert.deepEqual(later.shown(), expected);
      assertAlwaysPartOf(expected, later.everShown);
    });

    await context.test(`${title} took one run and two attempts`, async () => {
      const runs = await client.runs.list(threadId);
      assert.deepEqual(runs.map((run) => run.status), ["success"]);
      const parts = await all(client.runs.joinStream(threadId, runs[0].run_id, { lastEventId: "-1" }));
      const attempts = parts.filter((part) => part.event === "metadata").map((part) => part.data.attempt);
      assert.deepEqual(attempts, [1, 2]);
    });

    await context.test(`${title} is kept once`, async () => {
      const { values } = await client.threads.getState(threadId);
      assert.deepEqual(
        values.messages.map((/** @type {any} */ message) => message.content),
        expected.map((message) => message.text),
      );
    });
  }
});

/**
 * Whatever was shown at any moment was the beginning of what is shown in the end.
 *
 * @param {import("../support/chat.js").Shown[]} whole
 * @param {import("../support/chat.js").Shown[][]} moments
 */
function assertAlwaysPartOf(whole, moments) {
  assert.ok(moments.length > 0);
  for (const shown of moments) {
    assert.ok(shown.length <= whole.length, JSON.stringify(shown));
    for (const [place, message] of shown.entries()) {
      assert.ok(whole[place].text.startsWith(message.text), JSON.stringify(shown));
    }
  }
}
