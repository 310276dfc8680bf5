import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { describe, it } from "node:test";

import { complaintsOf, eachTestHasAPerson } from "../support/browser.js";
import { picture } from "../support/pictures.js";
import { until } from "../support/until.js";
import { METRICS, openDashboard, refresh, spoil } from "./dashboard.js";

const person = eachTestHasAPerson();

async function openPage(query = "") {
  const page = await person().newPage();
  const complaints = complaintsOf(page);
  return { page, complaints, board: await openDashboard(page, query) };
}

describe("the dashboard", () => {
  it("has its figures as soon as it is open, and says that it is connected", async () => {
    const { page, board, complaints } = await openPage();
    await board.hasFigures();
    await board.statusIs("Connected");
    const figures = await board.figures();
    assert.equal(figures.length, METRICS.length);
    assert.ok(figures.every((text) => /\d/.test(text)), String(figures));
    assert.deepEqual([await board.alerts(), complaints], [[], []]);
    await board.atRest();
    await picture(page.locator("body"), "dashboard");
  });

  it("changes with a run that nobody started from a page, in every tab", async () => {
    const { page, board } = await openPage();
    await board.hasFigures();
    await board.ask("How is the income?");
    await board.chatSays(/since the day before/);
    await board.atRest();
    const other = (await openPage()).board;
    await other.hasFigures();
    const earlier = await board.figures();
    await refresh(await board.threadId());
    await until("both tabs show other figures", async () =>
      (await Promise.all([board, other].map((each) => each.figures()))).every((figures) => figures[4] !== earlier[4]),
    );
    assert.deepEqual(await board.figures(), await other.figures());
    await board.atRest();
    await picture(page.locator("body"), "dashboard-changed");
  });

  it("changes when it is refreshed, at once or later", async () => {
    const { board } = await openPage();
    await board.hasFigures();
    for (const name of ["Refresh", "Refresh in 5 seconds"]) {
      const [...earlier] = await board.figures();
      await board.button(name).click();
      await until(`the figures change after ${name}`, async () => (await board.figures())[4] !== earlier[4]);
    }
    const { points } = await board.everShown();
    assert.ok(!points?.slice(1).includes("—"), `never empty again: ${points}`);
  });

  it("answers questions, and its figures change when the assistant changes them", async () => {
    const { board } = await openPage();
    await board.hasFigures();
    await board.ask("How is the APY?");
    await board.chatSays(/since the day before/);
    assert.match(await board.conversation(), new RegExp((await board.figures())[1] ?? ""));
    const earlier = await board.figures();
    await board.ask("refresh");
    await until("the figures change", async () => (await board.figures())[4] !== earlier[4]);
  });

  it("is as it was after a reload", async () => {
    const { page, board } = await openPage();
    await board.hasFigures();
    await board.ask("How is the income?");
    await board.chatSays(/since the day before/);
    await until("the answer is there", async () => (await board.conversation()).includes("7-day income"));
    const earlier = await board.figures();
    await page.reload();
    await board.hasFigures();
    await board.chatSays("How is the income?");
    await board.chatSays(/since the day before/);
    assert.deepEqual(await board.figures(), earlier);
    const asked = (await board.conversation()).split("How is the income?").length - 1;
    assert.equal(asked, 1, "the question is there once");
  });

  it("shows why a run failed", async () => {
    const { board } = await openPage();
    await board.hasFigures();
    const threadId = await board.threadId();
    const earlier = await board.figures();
    await spoil(threadId);
    await refresh(threadId);
    await until("there is an alert", async () => (await board.alerts()).length > 0);
    assert.match(String(await board.alerts()), /str/);
    assert.deepEqual(await board.figures(), earlier, "the figures stay");
    await board.button("Dismiss").click();
    assert.deepEqual(await board.alerts(), []);
  });

  it("says so when there is no such thread, and can be told to try again", async () => {
    const missing = randomUUID();
    const { board } = await openPage(`?thread=${missing}`);
    await board.statusIs("Disconnected");
    await board.alertSays(missing);
    await board.button("Try again").click();
    await board.alertSays(missing);
  });
});
