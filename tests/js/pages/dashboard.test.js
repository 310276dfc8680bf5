import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { describe, it } from "node:test";

import { collectErrors, useBrowserContext } from "../support/browser.js";
import { checkPicture } from "../support/pictures.js";
import { until } from "../support/until.js";
import { serverUrl } from "../support/api.js";
import { METRICS, openDashboard, refresh, breakNextRefresh } from "./dashboard.js";

const context = useBrowserContext();

async function openPage(query = "") {
  const page = await context().newPage();
  const consoleErrors = collectErrors(page);
  return { page, consoleErrors, board: await openDashboard(page, query) };
}

describe("the dashboard", () => {
  it("shows its figures and that it is connected", async () => {
    const { page, board, consoleErrors } = await openPage();
    await board.waitForFigures();
    await board.waitForStatus("Connected");
    const figures = await board.figures();
    assert.equal(figures.length, METRICS.length);
    assert.ok(figures.every((text) => /\d/.test(text)), String(figures));
    assert.deepEqual([await board.alerts(), consoleErrors], [[], []]);
    await board.waitUntilIdle();
    await checkPicture(page.locator("body"), "dashboard");
  });

  it("shows a run started through the API in every tab", async () => {
    const { page, board } = await openPage();
    await board.waitForFigures();
    await board.send("How is the income?");
    await board.waitForChatText(/since the day before/);
    await board.waitUntilIdle();
    const other = (await openPage()).board;
    await other.waitForFigures();
    const earlier = await board.figures();
    await refresh(await board.threadId());
    await until("the figures change in both tabs", async () =>
      (await Promise.all([board, other].map((each) => each.figures()))).every((figures) => figures[4] !== earlier[4]),
    );
    assert.deepEqual(await board.figures(), await other.figures());
    await board.waitUntilIdle();
    await checkPicture(page.locator("body"), "dashboard-changed");
  });

  it("refreshes immediately or after a delay", async () => {
    const { board } = await openPage();
    await board.waitForFigures();
    for (const name of ["Refresh", "Refresh in 5 seconds"]) {
      const [...earlier] = await board.figures();
      await board.button(name).click();
      await until(`the figures change after ${name}`, async () => (await board.figures())[4] !== earlier[4]);
    }
    const { points } = await board.everShown();
    assert.ok(!points?.slice(1).includes("—"), `never empty again: ${points}`);
  });

  it("answers questions, and shows figures that the assistant changes", async () => {
    const { board } = await openPage();
    await board.waitForFigures();
    await board.send("How is the APY?");
    await board.waitForChatText(/since the day before/);
    assert.match(await board.conversation(), new RegExp((await board.figures())[1] ?? ""));
    const earlier = await board.figures();
    await board.send("refresh");
    await until("the figures change", async () => (await board.figures())[4] !== earlier[4]);
  });

  it("is unchanged after a reload", async () => {
    const { page, board } = await openPage();
    await board.waitForFigures();
    await board.send("How is the income?");
    await board.waitForChatText(/since the day before/);
    await until("the reply is complete", async () => (await board.conversation()).includes("7-day income"));
    const earlier = await board.figures();
    await page.reload();
    await board.waitForFigures();
    await board.waitForChatText("How is the income?");
    await board.waitForChatText(/since the day before/);
    assert.deepEqual(await board.figures(), earlier);
    const count = (await board.conversation()).split("How is the income?").length - 1;
    assert.equal(count, 1, "the question appears once");
  });

  it("shows why a run failed", async () => {
    const { board } = await openPage();
    await board.waitForFigures();
    const threadId = await board.threadId();
    const earlier = await board.figures();
    await breakNextRefresh(threadId);
    await refresh(threadId);
    await until("an alert is shown", async () => (await board.alerts()).length > 0);
    assert.match(String(await board.alerts()), /str/);
    assert.deepEqual(await board.figures(), earlier, "the figures stay");
    await board.button("Dismiss").click();
    assert.deepEqual(await board.alerts(), []);
  });

  it("is complete on a phone of 320 pixels", async () => {
    const { page, board } = await openPage();
    await page.setViewportSize({ width: 320, height: 640 });
    await board.waitForFigures();
    for (const name of METRICS) {
      const card = page.locator(`[data-metric="${name}"]`);
      await card.scrollIntoViewIfNeeded();
      const clipped = await card.evaluate((element) => {
        const { left, right, top, bottom } = element.getBoundingClientRect();
        const atBottom = document.elementFromPoint((left + right) / 2, Math.min(bottom, innerHeight) - 4);
        return left < 0 || right > innerWidth || bottom - top < element.scrollHeight || !element.contains(atBottom);
      });
      assert.ok(!clipped, `the card ${name} is complete`);
    }
    const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(overflow <= 0, `nothing is wider than the page: ${overflow}`);
  });

  it("starts a new thread when the stored one was deleted", async () => {
    const { page, board } = await openPage();
    await board.waitForFigures();
    const deleted = await board.threadId();
    await fetch(`${serverUrl}/threads/${deleted}`, { method: "DELETE" });
    await page.reload();
    await board.waitForAlert("was deleted");
    await board.waitForFigures();
    assert.notEqual(await board.threadId(), deleted);
    await board.button("Dismiss").click();
    assert.deepEqual(await board.alerts(), []);
  });

  it("reports that its thread was deleted while it is open, and keeps the figures", async () => {
    const { board } = await openPage();
    await board.waitForFigures();
    const earlier = await board.figures();
    await fetch(`${serverUrl}/threads/${await board.threadId()}`, { method: "DELETE" });
    await board.waitForStatus("Disconnected");
    await until("an alert is shown", async () => (await board.alerts()).some((text) => /not found/.test(text)));
    assert.deepEqual(await board.figures(), earlier);
    await board.button("Dismiss").click();
    assert.deepEqual(await board.alerts(), [], "the alert about the connection can be dismissed");
  });

  it("shows a thread with any name, once a message has created it", async () => {
    const { board } = await openPage(`?thread=fund-${randomUUID().slice(0, 8)}`);
    await board.waitForStatus("Disconnected");
    await board.send("refresh");
    await board.waitForFigures();
    await board.waitForStatus("Connected");
    const earlier = await board.figures();
    await board.button("Refresh").click();
    await until("the figures change", async () => (await board.figures())[4] !== earlier[4]);
    assert.deepEqual(await board.alerts(), []);
  });

  it("reports an unknown thread, and can retry", async () => {
    const missing = randomUUID();
    const { board } = await openPage(`?thread=${missing}`);
    await board.waitForStatus("Disconnected");
    await board.waitForAlert(missing);
    await board.button("Try again").click();
    await board.waitForAlert(missing);
  });
});
