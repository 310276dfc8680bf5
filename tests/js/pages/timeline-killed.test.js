/** The test runner kills and restarts the server in the middle of a run, when it reads KILL on standard output. */
import { it } from "node:test";

import { serverUrl } from "../support/api.js";
import { openBrowser } from "../support/browser.js";
import { timelinePage } from "./timeline.js";

const KILL = "KILL THE SERVER";

it("a timeline survives a killed server: what was shown stays, and the run is completed (25)", async () => {
  const browser = await openBrowser();
  try {
    const page = timelinePage(await browser.newPage());
    await page.open(serverUrl, "report");
    await page.send("Report on barley");
    await page.waitForProgress(3);
    process.stdout.write(`${KILL}\n`);
    await page.page.getByLabel("Connection").getByText("Reconnecting").waitFor();
    await page.page.getByText("Report on barley").first().waitFor();
    await page.page.getByLabel("Connection").getByText(/Resumed|Live/).waitFor();
    await page.page.getByLabel("Demand by source").waitFor({ timeout: 60_000 });
    await page.waitUntilIdle();
    await page.checkAgainstServer();
  } finally {
    await browser.close();
  }
});
