/** Interrupts on the timeline page. Numbers are those of the acceptance checks. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";

import { checkPicture } from "../support/pictures.js";
import { until } from "../support/until.js";
import { runsOf, serverBlocks } from "./timeline.js";
import { askedThree, usePages } from "./timeline-pages.js";

const { anotherDevice, openPage, proxy } = usePages();

const TAXI = "Pay Ana 48.20 for “Taxi to the airport”?";
const HOTEL = "Pay Ben 612.00 for “Two nights in Oslo”?";
const LUNCH = "Pay Chloe 86.50 for “Lunch with a client”?";

describe("questions", () => {
  it("are drawn after what they belong to, in their order, and the input says that answers are needed (10, 17)", async () => {
    const page = await openPage();
    await askedThree(page);
    const titles = await page.questions().evaluateAll((all) => all.map((each) => each.getAttribute("aria-label")));
    const blocks = await serverBlocks(page.threadId());
    assert.deepEqual(titles, blocks.filter(({ kind }) => kind === "interrupt").map(({ value }) => value.question));
    assert.deepEqual([...titles].sort(), [TAXI, HOTEL, LUNCH]);
    const kinds = (await page.ids()).map((id) => id[0]);
    assert.deepEqual(kinds, ["m", "m", "i", "i", "i"]);
    await page.page.getByText("3 answers are needed above.").waitFor();
    await page.question(HOTEL).getByRole("button", { name: "Approve" }).click();
    await page.question(HOTEL).getByText("Answered").waitFor();
    await page.waitForOpen(2);
    await page.checkAgainstServer();
  });

  it("keep what was typed over a reload, and what was sent afterwards (11, 12, 13)", async () => {
    const page = await openPage();
    await askedThree(page);
    const before = (await page.ids()).indexOf((await page.ids()).find((id) => id.startsWith("i:")) ?? "");
    await page.question(TAXI).getByLabel("Reason").fill("Too far");
    await page.page.reload();
    await page.waitForOpen(3);
    assert.equal(await page.question(TAXI).getByLabel("Reason").inputValue(), "Too far");
    const release = proxy().hold(/PUT /);
    await page.question(TAXI).getByRole("button", { name: "Reject" }).click();
    await page.question(TAXI).getByText("Sending…").waitFor();
    assert.ok(await page.question(TAXI).getByLabel("Reason").isDisabled());
    release();
    await page.question(TAXI).getByText("Answered").waitFor();
    await page.waitUntilIdle();
    assert.equal((await page.ids()).indexOf((await page.ids()).find((id) => id.startsWith("i:")) ?? ""), before);
    await page.page.reload();
    await page.question(TAXI).getByText("Answered").waitFor();
    assert.equal(await page.question(TAXI).getByLabel("Reason").inputValue(), "Too far");
    assert.ok(await page.question(TAXI).getByLabel("Reason").isDisabled());
    await page.question(TAXI).getByText("rejected, Too far").waitFor();
  });

  it("freeze on the other device (14)", async () => {
    const one = await openPage();
    await one.send("Buy 12 laptops");
    const first = "Which cost centre pays for 12 laptops?";
    await one.waitForOpen(1);
    const phone = await anotherDevice({ viewport: { width: 390, height: 720 }, colorScheme: "dark" });
    const two = await openPage({ threadId: one.threadId(), device: phone });
    await two.waitForOpen(1);
    await one.question(first).getByText("Research").click();
    await one.question(first).getByRole("button", { name: "Answer" }).click();
    await two.question(first).getByText("Answered on another device").waitFor({ timeout: 10_000 });
    await until("both show the same", async () => JSON.stringify(await one.shown()) === JSON.stringify(await two.shown()));
    await Promise.all([one, two].map((page) => page.question("By when does Research need 12 laptops?").waitFor()));
    await Promise.all([one.waitUntilIdle(), two.waitUntilIdle()]);
    await checkPicture(one.page.locator("body"), "timeline");
    await checkPicture(two.page.locator("body"), "timeline-phone");
  });

  it("answered by two devices at the same time have one answer, and one run (15)", async () => {
    const one = await openPage();
    await askedThree(one);
    const two = await openPage({ threadId: one.threadId(), device: await anotherDevice() });
    await two.waitForOpen(3);
    const runs = (await runsOf(one.threadId())).length;
    const release = proxy().hold(/PUT /);
    await one.question(TAXI).getByLabel("Reason").fill("One");
    await two.question(TAXI).getByLabel("Reason").fill("Two");
    for (const page of [one, two]) await page.question(TAXI).getByRole("button", { name: "Approve" }).click();
    release();
    for (const page of [one, two]) await page.question(TAXI).getByText("Decision").waitFor();
    const decisions = await Promise.all([one, two].map((page) => page.question(TAXI).locator(".verdict").innerText()));
    assert.equal(decisions[0], decisions[1]);
    const labels = await Promise.all([one, two].map((page) => page.question(TAXI).locator(".badge").innerText()));
    assert.equal(labels.filter((label) => label.includes("another device")).length, 1);
    assert.equal((await runsOf(one.threadId())).length, runs + 1);
  });

  it("whose answer the server rejects are open again, with what was entered (16)", async () => {
    const page = await openPage();
    await askedThree(page);
    await page.question(TAXI).getByLabel("Reason").fill("Kept");
    proxy().reject(/PUT /, 500);
    await page.question(TAXI).getByRole("button", { name: "Approve" }).click();
    await page.question(TAXI).getByText("Not sent: Rejected by the proxy").waitFor();
    assert.equal(await page.question(TAXI).getByLabel("Reason").inputValue(), "Kept");
    await page.question(TAXI).getByRole("button", { name: "Approve" }).click();
    await page.question(TAXI).getByText("approved, Kept").waitFor();
  });

  it("one after another, in one node of a subgraph, are one block each (18, 19)", async () => {
    const page = await openPage();
    await page.send("Buy 2 chairs");
    await page.question("Which cost centre pays for 2 chairs?").getByText("Research").click();
    await page.question("Which cost centre pays for 2 chairs?").getByRole("button", { name: "Answer" }).click();
    const when = page.question("By when does Research need 2 chairs?");
    await when.getByLabel("Answer").fill("Friday");
    assert.equal(await page.questions().count(), 2);
    assert.equal(await page.open_().count(), 1);
    await when.getByRole("button", { name: "Answer" }).click();
    const sign = page.question("Buy 2 chairs for 360.00, paid by Research?");
    await sign.getByRole("button", { name: "Approve" }).click();
    await page.page.locator(".message.ai").getByText("2 chairs ordered for 360.00, needed by Friday").waitFor();
    assert.equal(await page.questions().count(), 3);
    await page.waitUntilIdle();
    await page.checkAgainstServer();
  });

  it("about tool calls can be approved, edited and rejected", async () => {
    const page = await openPage();
    await page.send("Publish: We moved. Visit us.");
    const review = page.question("Review before this is published");
    await review.getByText("Edit", { exact: true }).click();
    await review.getByLabel("title").fill("New address");
    await review.getByText("Reject", { exact: true }).nth(1).click();
    await review.getByRole("button", { name: "Send the decisions" }).click();
    await page.page.locator(".message.ai").getByText("“New address” is on the website").waitFor();
    assert.equal(await review.getByLabel("title").inputValue(), "New address");
    await review.getByText("edit, reject").waitFor();
  });

  it("are dropped by a new message", async () => {
    const page = await openPage();
    await askedThree(page);
    await page.send("Never mind");
    await until("all are dropped", async () => (await page.page.getByText("No longer needed").count()) === 3);
  });
});
