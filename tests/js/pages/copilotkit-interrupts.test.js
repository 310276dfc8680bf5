import assert from "node:assert/strict";
import { it } from "node:test";

import { useBrowserContext } from "../support/browser.js";
import { checkPicture } from "../support/pictures.js";
import { newThread, openPage, v1 } from "./copilotkit.js";

const context = useBrowserContext();

/** @param {string} agent @param {string} text */
async function openWithInterrupt(agent, text) {
  const tab = await openPage(context(), { agent, thread: newThread(), with: "interrupts" });
  await tab.expectEmpty();
  await tab.send(text);
  return tab;
}

it("an interrupt is shown once, although the page receives it in two ways, and again after each reload", async () => {
  const tab = await openWithInterrupt("asks", "Paint it?");
  await tab.expectInterrupts("outcome: Paint it?");
  await tab.reload();
  await tab.expectInterrupts("outcome: Paint it?");
  await tab.reload();
  await tab.expectInterrupts("outcome: Paint it?");

  await tab.click("yes");
  await tab.expectMessages("Paint it?", "So: Paint it? yes");
  await tab.expectInterrupts();
  const [{ interruptId, ...answer }, ...others] = tab.requestsTo("run")[0].body.resume;
  assert.deepEqual([typeof interruptId, answer, others], ["string", { status: "resolved", payload: "yes" }, []]);
  await tab.waitUntilIdle();
  assert.deepEqual(await tab.errors(), []);

  await tab.reload();
  await tab.expectMessages("Paint it?", "So: Paint it? yes");
  await tab.expectInterrupts();
  await tab.checkStreams();
});

it("two interrupts in a row are answered without a reload", async () => {
  const tab = await openWithInterrupt("asks", "Paint it?");
  await tab.expectInterrupts("outcome: Paint it?");
  await tab.click("no");
  await tab.expectMessages("Paint it?", "So: Paint it? no");
  await tab.waitUntilIdle();
  await tab.send("Polish it?");
  await tab.expectInterrupts("outcome: Polish it?");
  await tab.click("yes");
  await tab.expectMessages("Paint it?", "So: Paint it? no", "Polish it?", "So: Paint it? no Polish it? yes");
  assert.deepEqual(await tab.errors(), []);
  await tab.checkStreams();
});

it("an interrupt that arrives only as an event is shown and answered in the older way", async () => {
  const tab = await openWithInterrupt("asks_by_event", "Paint it?");
  await tab.expectInterrupts("event: Paint it?");
  await tab.reload();
  await tab.expectInterrupts("event: Paint it?");

  await tab.click("yes");
  await tab.expectMessages("Paint it?", "So: Paint it? yes");
  await tab.expectInterrupts();
  const { resume, forwardedProps } = tab.requestsTo("run")[0].body;
  assert.deepEqual([resume, forwardedProps.command.resume], [undefined, "yes"]);
  assert.deepEqual(await tab.errors(), []);
  await tab.checkStreams();
});

// The v1 hook shows one interrupt at a time, and cannot dismiss it.
if (!v1) {
  it("several interrupts are shown and answered together", async () => {
    const tab = await openWithInterrupt("asks", "Paint it? Polish it?");
    await tab.expectInterrupts("outcome: Paint it?", "outcome: Polish it?");
    await tab.reload();
    await tab.expectInterrupts("outcome: Paint it?", "outcome: Polish it?");
    await tab.page.setViewportSize({ width: 800, height: 480 });
    await checkPicture(tab.chat, "interrupts");

    await tab.answer("Polish it?", "no");
    assert.equal(tab.requestsTo("run").length, 0, "the page waits for the other answer");
    await tab.answer("Paint it?", "yes");
    await tab.expectMessages("Paint it? Polish it?", "So: Paint it? yes Polish it? no");
    assert.equal(tab.requestsTo("run")[0].body.resume.length, 2);
    assert.deepEqual(await tab.errors(), []);
    await tab.checkStreams();
  });

  it("a dismissed interrupt is reported to the graph", async () => {
    const tab = await openWithInterrupt("asks", "Paint it?");
    await tab.expectInterrupts("outcome: Paint it?");
    await tab.click("dismiss");
    await tab.expectInterrupts();
    await tab.waitUntilIdle();
    assert.match((await tab.messages()).at(-1).content, /^So: Paint it\? .*__agui_cancelled__/);
    assert.deepEqual(await tab.errors(), []);
    await tab.checkStreams();
  });
}
