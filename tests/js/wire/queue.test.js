import assert from "node:assert/strict";
import { test } from "node:test";

import { client, sdk, userInput } from "../support/sdk.js";
import { until } from "../support/until.js";

const { StreamController } = await import(`${sdk}/stream`);

test("messages that are queued on the server run one after another, and can be cancelled", async () => {
  const controller = new StreamController({ assistantId: "slow_chat", client, queue: "server" });
  const shown = () => controller.rootStore.getSnapshot().messages;
  const queued = () => controller.queueStore.getSnapshot();
  const submit = (/** @type {string} */ text, /** @type {any} */ how) => void controller.submit(userInput(text), how);

  submit("first");
  await until("the first reply has started", () => shown().at(-1)?.text.startsWith("w0 w1"));
  submit("second", { multitaskStrategy: "enqueue" });
  await until("the second message is queued", () => queued().length === 1);
  submit("third", { multitaskStrategy: "enqueue" });
  await until("the third message is queued", () => queued().length === 2);
  const threadId = controller.rootStore.getSnapshot().threadId;
  // The page shows a message as queued before the server has accepted it.
  await until("both runs are pending", async () => (await client.runs.list(threadId, { status: "pending" })).length === 2);

  await controller.cancelQueued(queued()[1].id);
  await until("the second reply is shown", () => shown().length === 4 && shown().at(-1).text.endsWith("w59"), 60_000);
  await until("nothing is queued", () => queued().length === 0);
  const texts = shown().map((/** @type {any} */ message) => message.text.split(" ")[0]);
  assert.deepEqual(texts, ["first", "w0", "second", "w0"]);
  await controller.dispose();
});
