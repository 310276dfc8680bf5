/**
 * The test runner kills and restarts the server in the middle of a reply, when it reads KILL on standard output.
 */
import assert from "node:assert/strict";
import { it } from "node:test";

import { openBrowser } from "../support/browser.js";
import { until } from "../support/until.js";
import { openDashboard, refresh } from "./dashboard.js";

const KILL = "KILL THE SERVER";

it("a dashboard survives a killed server: the figures stay, the reply is completed, and later runs are shown", async () => {
  const browser = await openBrowser();
  try {
    const board = await openDashboard(await browser.newPage());
    await board.waitForFigures();
    const earlier = await board.figures();
    await board.send("How are all the numbers?");
    await board.waitForChatText(/7-day income/);
    process.stdout.write(`${KILL}\n`);
    await board.waitForStatus("Reconnecting");
    await board.waitForAlert("cannot be reached");
    assert.deepEqual(await board.figures(), earlier);
    await board.waitForStatus("Connected");
    await until("the reply is complete", async () => /Points: .* since the day before/.test((await board.conversation()).replaceAll("\n", " ")));
    assert.equal((await board.conversation()).split("Points").length - 1, 1, "without duplicates");
    assert.deepEqual(await board.alerts(), [], "connection errors are cleared");
    assert.deepEqual(await board.figures(), earlier);

    await refresh(await board.threadId());
    await until("a later run is shown", async () => (await board.figures())[4] !== earlier[4]);
    const { points } = await board.everShown();
    assert.ok(!points?.slice(1).includes("—"), `never empty again: ${points}`);
  } finally {
    await browser.close();
  }
});
