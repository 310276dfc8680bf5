import assert from "node:assert/strict";
import { afterEach, test } from "node:test";

import { closeAll, openChat } from "../support/chat.js";
import { client } from "../support/sdk.js";
import { until } from "../support/until.js";

afterEach(closeAll);

/** `stop` disconnects, which cancels the run (`onDisconnect`). With `reconnectOnMount` it sends a cancel request. */
for (const reconnectOnMount of [false, true]) {
  test(`stop ends the run${reconnectOnMount ? " that the page could rejoin" : ""}`, async () => {
    const { thread_id: threadId } = await client.threads.create();
    const chat = openChat({ assistantId: "slow_chat", threadId, reconnectOnMount });
    chat.send("hi");
    await chat.waitForWords(3);

    chat.stop();
    await chat.waitUntilIdle();

    await until("the run is interrupted", async () => (await client.runs.list(threadId))[0].status === "interrupted");
    assert.ok(chat.reply().split(" ").length < 60);
    assert.equal(chat.alert(), null);
    assert.equal(window.sessionStorage.getItem(`lg:stream:${threadId}`), null);
  });
}
