import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { useBrowserContext } from "../support/browser.js";
import { longReply } from "../support/replies.js";
import { until } from "../support/until.js";
import { openPage, servePage } from "../support/wire-browser.js";

/** @type {() => void} */
let stopServing;
before(async () => void (stopServing = await servePage("wire-svelte.js")));
after(() => stopServing());
const context = useBrowserContext();

test("a reply is streamed, and a second page shows all of it", async () => {
  const chat = await openPage(context(), { assistantId: "slow_chat" });
  await chat.send("hi");
  await chat.waitForText("w5");
  const again = await openPage(context(), { assistantId: "slow_chat", threadId: await chat.threadId() });
  await again.waitForText(longReply);
  await Promise.all([chat.waitUntilIdle(), again.waitUntilIdle()]);
  assert.deepEqual(await chat.messages(), ["hi", longReply]);
  assert.deepEqual(await again.messages(), ["hi", longReply]);
});

test("an interrupt is answered", async () => {
  const chat = await openPage(context(), { assistantId: "approve" });
  await chat.send("go");
  await chat.page.getByRole("dialog").waitFor();
  await chat.call("respond", "yes");
  await chat.waitForText("Done as you said");
  await until("the interrupt is cleared", async () => (await chat.interrupts()).length === 0);
});
