/**
 * The server is killed in mid-answer by whoever runs this, when it reads KILL on standard output, and started again.
 */
import assert from "node:assert/strict";
import { it } from "node:test";

import { openBrowser } from "../support/browser.js";
import { until } from "../support/until.js";
import { openDashboard, refresh } from "./dashboard.js";

const KILL = "KILL THE SERVER";

it("a dashboard survives its server: the figures stay, the answer is completed, and later runs are seen", async () => {
  const browser = await openBrowser();
  try {
    const board = await openDashboard(await browser.newPage());
    await board.hasFigures();
    const earlier = await board.figures();
    await board.ask("How are all the numbers?");
    await board.chatSays(/7-day income/);
    process.stdout.write(`${KILL}\n`);
    await board.statusIs("Reconnecting");
    assert.deepEqual(await board.figures(), earlier);
    await board.statusIs("Connected");
    await until("the answer is completed", async () => /Points: .* since the day before/.test((await board.conversation()).replaceAll("\n", " ")));
    assert.equal((await board.conversation()).split("Points").length - 1, 1, "and said once");
    assert.deepEqual(await board.alerts(), [], "what was said about the connection is over");
    assert.deepEqual(await board.figures(), earlier);

    await refresh(await board.threadId());
    await until("a later run is seen", async () => (await board.figures())[4] !== earlier[4]);
    const { points } = await board.everShown();
    assert.ok(!points?.slice(1).includes("—"), `never empty again: ${points}`);
  } finally {
    await browser.close();
  }
});
