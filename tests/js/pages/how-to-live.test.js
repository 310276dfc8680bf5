import assert from "node:assert/strict";
import { it } from "node:test";

import { openBrowser } from "../support/browser.js";

const { API: api, AGENT: agent, THREAD: threadId, SERVER_URL: url } = process.env;

/** Run the agent on the thread from outside the page. @param {string} content */
async function runElsewhere(content) {
  const messages = [{ id: crypto.randomUUID(), role: "user", content }];
  const body = { threadId, runId: crypto.randomUUID(), messages, tools: [], context: [], state: {}, forwardedProps: {} };
  const response = await fetch(`${api}/ag-ui/${agent}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  assert.match(await response.text(), /RUN_FINISHED/);
}

it("an open page shows a run that started elsewhere, and answers the interrupt of its own run", async () => {
  const browser = await openBrowser();
  try {
    await runElsewhere("Hello");
    const page = await browser.newPage();
    await page.goto(String(url));
    await page.getByText("Hello").first().waitFor();
    if (agent === "approvals") {
      await runElsewhere("Good morning");
      await page.getByText("Good morning").first().waitFor();
      await page.locator("textarea").fill("Reimburse c_taxi");
      await page.locator("textarea").press("Enter");
      await page.getByRole("button", { name: "approve" }).click();
      await page.getByText("Taxi to the airport: 48.20 paid to Ana.").last().waitFor();
    } else {
      await runElsewhere("Find conflicts");
      await page.getByText("Find conflicts").first().waitFor();
      await page.getByText(/unassigned/).first().waitFor();
    }
  } finally {
    await browser.close();
  }
});
