/** The test runner kills and restarts the server in the middle of a run, when it reads KILL on standard output. */
import { it } from "node:test";

import { serverUrl } from "../support/api.js";
import { openBrowser } from "../support/browser.js";
import { chatPage } from "./chat.js";

const KILL = "KILL THE SERVER";

it("a response survives a killed server: what was shown stays, and the rest arrives", async () => {
  const browser = await openBrowser();
  try {
    const page = chatPage(await browser.newPage());
    await page.open(serverUrl, "scheduling");
    await page.send("Show schedule overview");
    await page.answers.last().getByText("Schedule overview").waitFor();
    process.stdout.write(`${KILL}\n`);
    await page.page.getByText("Reconnecting…").waitFor();
    await page.own.getByText("Show schedule overview").waitFor();
    await page.answers.last().getByText("Dan: 2.0h/6.0 (33.3%)").waitFor({ timeout: 60_000 });
    await page.waitUntilIdle();
    await page.checkAgainstServer("scheduling");
  } finally {
    await browser.close();
  }
});
