import assert from "node:assert/strict";
import { afterEach, test } from "node:test";

import { closeAll, openChat } from "../support/chat.js";
import { client } from "../support/sdk.js";
import { until } from "../support/until.js";

afterEach(closeAll);

/** By leaving, which the run was told to take for a cancel; or, where it may be rejoined, by a cancel in words. */
for (const reconnectOnMount of [false, true]) {
  test(`stop ends the run${reconnectOnMount ? " also where a page may come back to it" : ""}`, async () => {
    const { thread_id: threadId } = await client.threads.create();
    const chat = openChat({ assistantId: "slow_chat", threadId, reconnectOnMount });
    chat.say("hi");
    await chat.showsWords(3);

    chat.stop();
    await chat.isDone();

    await until("the run is interrupted", async () => (await client.runs.list(threadId))[0].status === "interrupted");
    assert.ok(chat.answer().split(" ").length < 60);
    assert.equal(chat.alert(), null);
    assert.equal(window.sessionStorage.getItem(`lg:stream:${threadId}`), null);
  });
}
