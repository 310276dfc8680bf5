import assert from "node:assert/strict";
import { after, test } from "node:test";

import { longReply, numberedWords } from "../support/replies.js";
import { closeAll, openWireChat } from "../support/wire-chat.js";

after(closeAll);

const KILL = "KILL THE SERVER\n"; // read by tests/e2e/test_js_clients.py, which restarts the server on the same data

const conversations = [
  { assistantId: "slow_chat", replies: [longReply] },
  { assistantId: "same_id_chat", replies: [longReply] },
  { assistantId: "two_replies", replies: [numberedWords("a", 5), numberedWords("b", 60)] },
];

test("a page survives a restart of the server in the middle of a reply", async (context) => {
  const opened = conversations.map(({ assistantId }) => openWireChat({ assistantId }));
  for (const chat of opened) chat.send("hi");
  await Promise.all(opened.map((chat) => chat.waitForWords(10)));
  process.stdout.write(KILL);
  await Promise.all(opened.map((chat) => chat.waitForWords(60)));
  await Promise.all(opened.map((chat) => chat.waitUntilIdle()));

  for (const [index, { assistantId, replies }] of conversations.entries()) {
    await context.test(`${assistantId} shows each reply once`, () => {
      const expected = [{ type: "human", text: "hi" }, ...replies.map((text) => ({ type: "ai", text }))];
      assert.deepEqual(opened[index].shown(), expected);
    });
  }
});
