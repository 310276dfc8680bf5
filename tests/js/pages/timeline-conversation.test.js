/** Messages, reloads, devices, widgets and threads on the timeline page. Numbers are those of the acceptance checks. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";

import { post } from "../support/api.js";
import { until } from "../support/until.js";
import { runsOf, serverBlocks, startRun } from "./timeline.js";
import { askedThree, usePages } from "./timeline-pages.js";

const { anotherDevice, openPage, proxy } = usePages();

describe("messages", () => {
  it("appear before the server has them, and are one block afterwards (2)", async () => {
    const page = await openPage();
    const release = proxy().hold(/POST .*\/runs$/);
    await page.send("Hello");
    const sent = page.page.getByLabel("You");
    await sent.getByText("Sending…").waitFor({ timeout: 500 });
    const [id] = await page.ids();
    release();
    await until("the server has it", async () => (await sent.getByText("Sending…").count()) === 0);
    await page.page.getByText("I get things done").waitFor();
    assert.equal((await page.ids())[0], id);
    assert.equal(await sent.count(), 1);
    await page.waitUntilIdle();
    await page.checkAgainstServer();
  });

  it("stream in, and are exact at the end (3)", async () => {
    const page = await openPage({ agent: "report" });
    await page.page.evaluate(() => {
      const lengths = new Set();
      Object.assign(window, { lengths });
      new MutationObserver(() => lengths.add(document.querySelector(".message.ai")?.textContent?.length ?? 0)).observe(
        document.body, { childList: true, subtree: true, characterData: true });
    });
    await page.send("Report on tea");
    await page.waitForReport();
    assert.ok((await page.page.evaluate(() => Object(window).lengths.size)) >= 5);
    const text = (await serverBlocks(page.threadId())).find((block) => block.message?.type === "ai").message.content;
    const words = (/** @type {string} */ each) => each.replaceAll(/[#*\-\s]+/g, " ").trim();
    assert.equal(words(await page.reportText()), words(text));
  });

  it("that the server rejects are marked, and can be sent again", async () => {
    const page = await openPage();
    proxy().reject(/POST .*\/runs$/, 503);
    await page.send("Hello");
    await page.page.getByText("Not sent. Send it again.").waitFor();
    await page.send("Hello again");
    await page.page.getByText("I get things done").waitFor();
  });
});

describe("reloading", () => {
  it("in mid-run paints the saved copy, and the run goes on without duplicates (4)", async () => {
    const page = await openPage({ agent: "report" });
    await page.send("Report on coffee");
    await page.waitForProgress(2);
    const release = proxy().hold(/GET .*timeline/);
    const reloading = page.page.reload({ waitUntil: "commit" });
    release(); // the page itself is below /timeline, too
    await reloading;
    const held = proxy().hold(/GET .*timeline(\?|\/stream)/);
    await page.page.getByText("Report on coffee").first().waitFor({ timeout: 2_500 });
    held();
    await page.waitForReport();
    await page.checkAgainstServer();
  });

  it("many times in one run ends with the timeline of an undisturbed run (5)", async () => {
    const straight = await openPage({ agent: "report" });
    await straight.send("Report on rice");
    await straight.waitForReport();
    const page = await openPage({ agent: "report" });
    await page.send("Report on rice");
    await page.waitForProgress(1);
    for (const milliseconds of [0, 130, 310, 520, 80, 700, 240, 410, 90, 600]) {
      await new Promise((resolve) => setTimeout(resolve, milliseconds));
      await page.page.reload();
    }
    await page.waitForReport();
    await page.checkAgainstServer();
    const texts = async (/** @type {typeof page} */ each) => (await each.shown()).map(([, text]) => text);
    assert.deepEqual(await texts(page), await texts(straight));
  });

  it("after the tab was closed in mid-run shows the complete run (6)", async () => {
    const page = await openPage({ agent: "report" });
    await page.send("Report on wine");
    await page.waitForProgress(1);
    const threadId = page.threadId();
    await page.page.close();
    await until("the run ends", async () => (await runsOf(threadId)).every(({ status }) => status === "success"));
    const reopened = await openPage({ agent: "report", threadId });
    await reopened.waitForReport();
    await reopened.checkAgainstServer();
  });
});

describe("two devices", () => {
  it("show the same in mid-run and after the end (7, 8)", async () => {
    const one = await openPage({ agent: "report" });
    await one.send("Report on salt");
    await one.waitForProgress(2);
    const device = await anotherDevice();
    const two = await openPage({ agent: "report", threadId: one.threadId(), device });
    await two.waitForStatus("Live");
    await until("both show the same", async () => String(await one.ids()) === String(await two.ids()));
    await Promise.all([one.waitForReport(), two.waitForReport()]);
    const late = await openPage({ agent: "report", threadId: one.threadId(), device: await anotherDevice() });
    await late.waitForReport();
    assert.deepEqual(await two.shown(), await one.shown());
    assert.deepEqual(await late.shown(), await one.shown());
    await late.checkAgainstServer();
  });

  it("both show a run that the API starts (9)", async () => {
    const one = await openPage();
    await one.send("Hello");
    await one.page.getByText("I get things done").waitFor();
    await one.waitUntilIdle();
    const two = await openPage({ threadId: one.threadId(), device: await anotherDevice() });
    await two.waitForStatus("Live");
    await startRun(one.threadId(), "approvals", "From the API");
    for (const page of [one, two]) await page.page.getByLabel("You").getByText("From the API").waitFor({ timeout: 10_000 });
  });
});

describe("widgets", () => {
  it("merge, disappear, and stand below their message, also after a reload (20)", async () => {
    const page = await openPage({ agent: "report" });
    await page.send("Report on milk");
    await page.page.getByText("Research on milk").waitFor();
    await page.page.getByText(/\d of 8 sources, last: /).waitFor();
    await page.waitForReport();
    assert.equal(await page.page.locator(".progress").count(), 0);
    const shown = await page.shown();
    assert.deepEqual(shown.map(([id]) => id[0]), ["m", "m", "u"]);
    await page.page.reload();
    await page.waitForReport();
    assert.deepEqual(await page.shown(), shown);
  });

  it("that are unknown or throw are replaced by a card, and the rest is alive (21)", async () => {
    const page = await openPage({ agent: "report" });
    await page.send("Report on figs");
    await page.waitForReport();
    const ui = (/** @type {string} */ id, /** @type {string} */ name) => ({ type: "ui", id, name, props: {}, metadata: {} });
    await post(`/threads/${page.threadId()}/state`, { values: { ui: [ui("odd", "nonsense"), ui("broken", "bar-chart")] }, as_node: "write" });
    await page.page.getByText("Unknown widget: nonsense").waitFor();
    await page.page.getByText("This widget failed: bar-chart").waitFor();
    await page.send("Report on dates");
    await page.page.getByText("Research on dates").waitFor();
  });
});

describe("threads", () => {
  it("do not show each other's blocks (22)", async () => {
    const page = await openPage();
    await askedThree(page);
    const first = page.threadId();
    const shown = await page.shown();
    await page.page.getByRole("link", { name: "New conversation" }).click();
    assert.deepEqual(await page.ids(), []);
    await page.send("Hello");
    await page.page.getByText("I get things done").waitFor();
    assert.equal(await page.questions().count(), 0);
    await page.page.evaluate((id) => (location.hash = `#/approvals/${id}`), first);
    await page.waitForOpen(3);
    assert.deepEqual(await page.shown(), shown);
  });

  it("that are switched quickly while both stream stay apart, with one stream each (23)", async () => {
    const page = await openPage({ agent: "report" });
    await page.send("Report on one");
    await page.page.getByText("Research on one").waitFor();
    const first = page.threadId();
    await page.page.getByRole("link", { name: "New conversation" }).click();
    await page.send("Report on two");
    await page.page.getByText("Research on two").waitFor();
    const second = page.threadId();
    for (let count = 0; count < 10; count++) {
      const [threadId, other] = count % 2 ? [second, "one"] : [first, "two"];
      await page.page.evaluate((id) => (location.hash = `#/report/${id}`), threadId);
      assert.doesNotMatch(await page.page.locator("main").innerText(), new RegExp(`Report on ${other}`));
      const open = proxy().streams().filter((path) => path.includes(first) || path.includes(second));
      assert.ok(open.length <= 2, String(open));
    }
    await page.waitForReport();
    await page.checkAgainstServer();
  });
});
