import assert from "node:assert/strict";
import { it } from "node:test";

import { openBrowser } from "../support/browser.js";

it("the page of the how-to about CopilotKit shows a conversation, and calls no other host", async () => {
  const browser = await openBrowser();
  try {
    const page = await browser.newPage();
    /** @type {Set<string>} */
    const hosts = new Set();
    page.on("request", (request) => void hosts.add(new URL(request.url()).hostname));
    await page.goto(String(process.env["SERVER_URL"]));
    await page.locator("textarea").fill("Find conflicts");
    await page.locator("textarea").press("Enter");
    await page.getByText(/conflict/i).nth(1).waitFor();
    await page.reload();
    await page.getByText("Find conflicts").first().waitFor();
    assert.deepEqual([...hosts].filter((host) => host !== "127.0.0.1" && host !== ""), []);
  } finally {
    await browser.close();
  }
});
