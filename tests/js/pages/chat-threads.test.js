/** The list of conversations, reloads and several tabs. The test runner slows the agents down. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";

import { until } from "../support/until.js";
import { operate } from "./chat.js";
import { useChatPages } from "./chat-pages.js";

const { openPage, anotherDevice } = useChatPages();

describe("the list of conversations", () => {
  it("opens, renames and deletes them", async () => {
    const page = await openPage();
    await page.ask("Find conflicts");
    const first = page.threadId();
    await page.button("New conversation").click();
    await page.ask("Hello");
    await page.button("Conversations").click();
    const list = page.page.getByRole("region", { name: "Conversations" });
    await list.getByRole("button", { name: "Rename Find conflicts" }).click();
    await list.getByLabel("Title").fill("Double bookings");
    await list.getByLabel("Title").press("Enter");
    await list.getByRole("button", { name: /^Double bookings/ }).click();
    await page.page.getByRole("heading", { name: "Double bookings" }).waitFor();
    await page.answers.getByText("Conflicts: 1").waitFor();
    assert.equal(page.threadId(), first);
    assert.equal((await operate("scheduling", "threads.get_by_id", { thread_id: first })).title, "Double bookings");
    await page.button("Conversations").click();
    await list.getByRole("button", { name: "Delete Double bookings" }).click();
    await list.getByRole("button", { name: "Keep" }).click();
    await list.getByRole("button", { name: "Delete Double bookings" }).click();
    await list.getByRole("button", { name: "Delete", exact: true }).click();
    await until("it is deleted", async () => (await list.getByRole("button", { name: /Double bookings/ }).count()) === 0);
    await page.button("Back").click();
    await page.page.getByRole("heading", { level: 1, name: "Welcome" }).waitFor();
    await assert.rejects(operate("scheduling", "threads.get_by_id", { thread_id: first }), /not found/);
  });

  it("closes with Escape, and the browser's Back returns to the thread before", async () => {
    const page = await openPage();
    await page.ask("Find conflicts");
    const first = page.threadId();
    await page.button("Conversations").click();
    await page.button("Back").press("Escape");
    await page.button("New conversation").click();
    await page.page.getByRole("heading", { level: 1 }).waitFor();
    await page.page.goBack();
    await page.answers.getByText("Conflicts: 1").waitFor();
    assert.equal(page.threadId(), first);
  });
});

/** Have the page reload itself as soon as an answer contains the text and is not complete. From here, that would be too
 * late on a busy machine. @param {import("playwright-core").Page} page @param {string} text */
const reloadInTheMiddle = (page, text) =>
  page.evaluate((expected) => {
    const root = document.querySelector("openai-chatkit")?.shadowRoot;
    if (!root) throw new Error("no element");
    const observer = new MutationObserver(() => {
      const isBusy = root.querySelector('[role="log"]')?.getAttribute("aria-busy") === "true";
      if (!isBusy || ![...root.querySelectorAll(".assistant")].at(-1)?.textContent?.includes(expected)) return;
      observer.disconnect();
      location.reload();
    });
    observer.observe(root, { childList: true, subtree: true, characterData: true });
  }, text);

describe("a reload", () => {
  it("in the middle of a response keeps its items, and the rest arrives", async () => {
    const page = await openPage();
    await reloadInTheMiddle(page.page, "Schedule overview");
    const reloaded = page.page.waitForEvent("load");
    await page.send("Show schedule overview");
    await reloaded;
    await page.answers.last().getByText("Schedule overview").waitFor();
    await page.answers.last().getByText("Dan: 2.0h/6.0 (33.3%)").waitFor();
    await page.page.locator('[data-item="end_of_turn"]').waitFor({ state: "attached" });
    await page.checkAgainstServer("scheduling");
  });
});

describe("two tabs", () => {
  it("show the same in the middle of a response and after its end", async () => {
    const one = await openPage();
    await one.send("Show load distribution");
    await one.answers.last().getByText("Load distribution").waitFor();
    const two = await openPage({ threadId: one.threadId(), device: await anotherDevice() });
    await two.answers.last().getByText("The average is 5.2h").waitFor();
    await one.waitUntilIdle();
    await until("both show the same", async () => JSON.stringify(await one.shown()) === JSON.stringify(await two.shown()));
  });

  it("that write at the same time keep both turns", async () => {
    const one = await openPage();
    await one.ask("Hello");
    const two = await openPage({ threadId: one.threadId(), device: await anotherDevice() });
    await two.answers.first().waitFor();
    await one.send("Find conflicts");
    await one.own.getByText("Find conflicts").waitFor();
    await two.ask("Show load distribution");
    for (const page of [one, two]) {
      await page.answers.getByText("The average is 5.2h").waitFor();
      await page.answers.getByText("Conflicts: 1").waitFor();
    }
    await until("both show the same", async () => JSON.stringify(await one.shown()) === JSON.stringify(await two.shown()));
    assert.deepEqual(await one.own.allInnerTexts(), ["Hello", "Find conflicts", "Show load distribution"]);
  });
});
