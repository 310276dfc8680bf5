import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { describe, it } from "node:test";

import { collectErrors, useBrowserContext } from "../support/browser.js";
import { checkPicture } from "../support/pictures.js";
import { until } from "../support/until.js";
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

  it("reports an unknown thread, and can retry", async () => {
    const missing = randomUUID();
    const { board } = await openPage(`?thread=${missing}`);
    await board.waitForStatus("Disconnected");
    await board.waitForAlert(missing);
    await board.button("Try again").click();
    await board.waitForAlert(missing);
  });
});
