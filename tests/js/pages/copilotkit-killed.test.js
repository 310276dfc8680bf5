/**
 * The test runner kills and restarts the server in the middle of a reply, when it reads KILL on standard output.
 */
import assert from "node:assert/strict";
import { it } from "node:test";

import { useBrowserContext } from "../support/browser.js";
import { dictation, newThread, openPage } from "./copilotkit.js";

const KILL = "KILL THE SERVER";
const context = useBrowserContext();

for (const [how, recover] of [
  ["reconnects", (/** @type {any} */ tab) => tab.click("Reconnect")],
  ["is reloaded", (/** @type {any} */ tab) => tab.reload()],
]) {
  it(`a reply whose server is killed is completed, without duplicates, on a page that ${how}`, async () => {
    const { properties, write, end } = dictation();
    const tab = await openPage(context(), { agent: "dictated", thread: newThread(), properties });
    await tab.expectEmpty();
    await tab.send("continue");
    write("one two");
    await tab.expectMessages("continue", "one two");
    process.stdout.write(`${KILL}\n`);
    await tab.expectError(/network/i);
    await tab.waitUntilIdle();
    assert.deepEqual(await tab.shown(), ["continue", "one two"], "the partial reply stays");

    await recover(tab);
    write(" three");
    await tab.expectMessages("continue", "one two three");
    end();
    await tab.waitUntilIdle();
    assert.deepEqual((await tab.messages()).map(({ content }) => content), ["continue", "one two three"]);
    await tab.checkStreams();
  });
}
