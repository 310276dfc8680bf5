import assert from "node:assert/strict";
import { it } from "node:test";

import { openBrowser } from "../support/browser.js";

it("the page of the how-to about following a thread shows an interrupt, its answer, and the thread again", async () => {
  const browser = await openBrowser();
  try {
    const page = await browser.newPage();
    await page.goto(String(process.env["SERVER_URL"]));
    await page.locator("input").press("Enter");
    await page.getByRole("button", { name: "Pay Ana 48.20" }).waitFor();
    const address = page.url();
    assert.match(address, /#[0-9a-f-]{36}$/);

    const second = await browser.newPage();
    await second.goto(address);
    await second.getByRole("button", { name: "Pay Ana 48.20" }).click();
    await second.getByText("- Taxi to the airport: 48.20 paid to Ana.").waitFor();
    await page.getByText("- Taxi to the airport: 48.20 paid to Ana.").waitFor();
    await page.reload();
    await page.getByText("- Taxi to the airport: 48.20 paid to Ana.").waitFor();
    assert.deepEqual(await page.locator("p").allTextContents(), await second.locator("p").allTextContents());
    assert.equal(await page.getByRole("button").count(), 0);
  } finally {
    await browser.close();
  }
});
