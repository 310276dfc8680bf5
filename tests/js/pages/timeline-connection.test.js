/** Lost connections, tabs and storage on the timeline page. Numbers are those of the acceptance checks. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { isDeepStrictEqual } from "node:util";

import { post, serverUrl } from "../support/api.js";
import { collectErrors } from "../support/browser.js";
import { until } from "../support/until.js";
import { get, runsOf, startRun, timelinePage } from "./timeline.js";
import { askedThree, usePages } from "./timeline-pages.js";

const { anotherDevice, context, openPage, proxy } = usePages();

const TAXI = "Pay Ana 48.20 for “Taxi to the airport”?";
const HOTEL = "Pay Ben 612.00 for “Two nights in Oslo”?";

describe("the connection", () => {
  it("that is cut resumes without a gap or a duplicate (24)", async () => {
    const page = await openPage({ agent: "report" });
    await page.send("Report on oats");
    await page.waitForProgress(2);
    const hold = proxy().hold(/GET .*timeline\/stream/);
    proxy().cut();
    await page.page.getByLabel("Connection").getByText("Reconnecting").waitFor({ timeout: 5_000 });
    hold();
    await page.waitForStatus("Resumed, nothing was missed");
    await page.waitForReport();
    await page.checkAgainstServer();
  });

  it("that falls silent is noticed (24)", async () => {
    const page = await openPage({ agent: "report", query: "?idle=6000&seconds=4" });
    await page.send("Report on peas");
    await page.waitForProgress(1);
    const hold = proxy().hold(/GET .*timeline\/stream/); // otherwise it reconnects before Playwright looks again
    proxy().stall();
    await page.waitForStatus("Reconnecting");
    hold();
    await page.waitForReport();
    await page.checkAgainstServer();
  });

  it("whose position the server has forgotten starts again from a snapshot, and says so (25)", async () => {
    const page = await openPage();
    await askedThree(page);
    proxy().reject(/GET .*timeline\/stream/, 400);
    proxy().cut();
    await page.waitForStatus("The server was reset: reloaded");
    await page.waitForOpen(3);
    await page.checkAgainstServer();
  });

  it("is not undone by a page that arrives late", async () => {
    const device = await anotherDevice();
    await device.addInitScript(() => {
      const { request } = LockManager.prototype;
      // A tab that does not hold the stream soon assumes that another one does, and loads the page.
      LockManager.prototype.request = async function (/** @type {any[]} */ ...all) {
        await new Promise((resolve) => setTimeout(resolve, 200));
        return Reflect.apply(request, this, all);
      };
    });
    const page = timelinePage(await device.newPage());
    /** @type {(() => Promise<void>)[]} */
    const late = [];
    await page.page.route(/timeline\?limit=100$/, async (route) => {
      const response = await route.fetch();
      late.push(() => route.fulfill({ response }));
    });
    await page.open(proxy().url, "approvals");
    await askedThree(page);
    await (await until("the page is requested", () => late[0]))();
    await page.question(TAXI).getByRole("button", { name: "Approve" }).click();
    await page.question(TAXI).getByText("Decision").waitFor();
    await page.checkAgainstServer();
  });

  it("is one for eight tabs, and passes to another tab when the one that holds it is closed (26)", async () => {
    const first = await openPage();
    await askedThree(first);
    const threadId = first.threadId();
    const others = [];
    for (let count = 1; count < 8; count++) others.push(await openPage({ threadId }));
    for (const page of others) await page.waitForOpen(3);
    assert.equal(proxy().streams().filter((path) => path.includes(threadId)).length, 1);
    await others[0]?.question(TAXI).getByRole("button", { name: "Approve" }).click();
    for (const page of [first, ...others]) await page.question(TAXI).getByText("Decision").waitFor();
    await first.page.close();
    await others[3]?.question(HOTEL).getByRole("button", { name: "Approve" }).click();
    for (const page of others) await page.question(HOTEL).getByText("Decision").waitFor({ timeout: 10_000 });
    await others[6]?.checkAgainstServer();
  });
});

/**
 * The browser's storage is full while `full` is set in the session's, or until something is deleted from its database.
 * Then localStorage rejects every write, and a transaction that writes is aborted when it is committed. Runs in the page.
 */
function limitStorage() {
  const isFull = () => sessionStorage.getItem("full") !== null;
  const error = () => new DOMException("The storage is full", "QuotaExceededError");
  const { setItem } = Storage.prototype;
  Storage.prototype.setItem = function (/** @type {[string, string]} */ ...all) {
    if (isFull() && this === localStorage) throw error();
    setItem.apply(this, all);
  };
  /** @type {WeakSet<IDBTransaction>} */
  const aborted = new WeakSet();
  const { put, delete: remove } = IDBObjectStore.prototype;
  IDBObjectStore.prototype.put = function (/** @type {[any, any]} */ ...all) {
    if (isFull() && !aborted.has(this.transaction)) {
      aborted.add(this.transaction);
      queueMicrotask(() => this.transaction.abort());
    }
    return put.apply(this, all);
  };
  IDBObjectStore.prototype.delete = function (key) {
    if (sessionStorage.getItem("full") === "until something is deleted") sessionStorage.removeItem("full");
    return remove.call(this, key);
  };
  Object.defineProperty(IDBTransaction.prototype, "error", {
    get() {
      return aborted.has(this) ? error() : null;
    },
  });
}

/** @param {import("playwright-core").Page} page @param {string} how */
const fillStorage = (page, how) => page.evaluate((text) => sessionStorage.setItem("full", text), how);

describe("storage", () => {
  it("that is refused is reported, and the page works (28)", async () => {
    const device = await anotherDevice();
    await device.addInitScript(() => {
      const refuse = () => { throw new DOMException("Refused", "SecurityError"); };
      Object.defineProperty(window, "indexedDB", { value: { open: refuse } });
      Object.defineProperty(Storage.prototype, "setItem", { value: refuse });
    });
    const page = await openPage({ device });
    const errors = collectErrors(page.page);
    await askedThree(page);
    await page.page.getByText("nothing is saved in this browser").waitFor();
    assert.deepEqual(errors, []);
  });

  it("that is full is reported, and the page goes on from the server (28)", async () => {
    const device = await anotherDevice();
    await device.addInitScript(limitStorage);
    const page = await openPage({ device });
    const errors = collectErrors(page.page);
    await askedThree(page);
    await page.checkAgainstServer();

    await fillStorage(page.page, "always");
    await page.question(TAXI).getByRole("button", { name: "Approve" }).click();
    await page.waitForOpen(2);
    await page.page.getByText("nothing is saved in this browser").waitFor();
    await page.checkShown();
    const shown = await page.shown();

    await page.page.reload(); // it has the copy from before, and shows the server's
    await page.waitForOpen(2);
    await page.checkShown();
    await until("the page shows the same again", async () => isDeepStrictEqual(await page.shown(), shown));
    await page.question(HOTEL).getByRole("button", { name: "Approve" }).click();
    await page.waitForOpen(1);
    await page.page.getByText("nothing is saved in this browser").waitFor();
    await page.checkShown();

    await page.page.evaluate(() => sessionStorage.removeItem("full"));
    await page.page.reload();
    await page.waitForOpen(1);
    await page.checkAgainstServer();
    assert.deepEqual(errors, []);
  });

  it("that is full makes room by dropping other conversations (28)", async () => {
    const device = await anotherDevice();
    const old = await openPage({ device });
    await askedThree(old);
    await old.checkAgainstServer();
    await old.page.close();
    await device.addInitScript(limitStorage);
    const page = await openPage({ device });
    await fillStorage(page.page, "until something is deleted");
    const errors = collectErrors(page.page);
    await askedThree(page);
    await page.checkAgainstServer();
    assert.equal(await page.page.getByText("nothing is saved in this browser").count(), 0);
    assert.deepEqual(errors, []);
  });

  it("with a corrupt record, or one of version 1, is repaired (28)", async () => {
    const threadId = (await post("/threads", {})).thread_id;
    await startRun(threadId, "approvals", "Hello");
    await until("the run ends", async () => (await runsOf(threadId)).every(({ status }) => status === "success"));
    const page = await openPage({ threadId });
    const errors = collectErrors(page.page);
    await page.page.getByText("I get things done").waitFor();
    await page.page.evaluate(async () => {
      const database = await new Promise((resolve) => {
        const request = indexedDB.open("threadwire-timeline", 1);
        request.onsuccess = () => resolve(request.result);
      });
      const store = database.transaction("blocks", "readwrite").objectStore("blocks");
      await new Promise((resolve) => (store.clear().onsuccess = resolve));
    });
    await page.page.reload();
    await page.page.getByText("I get things done").waitFor();
    await page.checkAgainstServer();

    const device = await anotherDevice();
    await device.addInitScript((id) => {
      const messages = [{ type: "human", id: "old", content: "From version 1" }];
      const cache = { schemaVersion: 1, threads: { [id]: { messages, ui: [], lastUpdatedAt: 1 } } };
      if (!sessionStorage.getItem("done")) localStorage.setItem("langgraph-stream-cache", JSON.stringify(cache));
      sessionStorage.setItem("done", "yes");
    }, threadId);
    const held = proxy().hold(/GET .*timeline(\?|\/stream)/);
    const upgraded = await openPage({ threadId, device });
    await upgraded.page.getByLabel("You").getByText("From version 1").waitFor();
    held();
    await upgraded.page.getByText("I get things done").waitFor();
    assert.equal(await upgraded.page.evaluate(() => localStorage.getItem("langgraph-stream-cache")), null);
    assert.deepEqual(errors, []);
  });
});

describe("the page", () => {
  it("requests nothing from other hosts, and logs no error", async () => {
    const page = timelinePage(await context().newPage());
    const errors = collectErrors(page.page);
    /** @type {string[]} */
    const hosts = [];
    page.page.on("request", (request) => void hosts.push(new URL(request.url()).origin));
    await page.open(proxy().url, "approvals");
    await askedThree(page);
    assert.deepEqual([...new Set(hosts)].filter((host) => !host.startsWith("data") && host !== "null"), [proxy().url]);
    assert.deepEqual(errors, []);
  });

  it("holds messages back until they are complete, if it is asked to", async () => {
    const page = await openPage({ agent: "report", query: "?hold&seconds=4" });
    await page.send("Report on hops");
    await page.waitForProgress(8);
    const text = await until("the report appears", async () => (await page.page.locator(".message.ai").count()) > 0 && page.reportText());
    assert.match(text, /Job adverts/);
  });

  it("stops a run", async () => {
    const page = await openPage({ agent: "report" });
    await page.send("Report on corn");
    await page.waitForProgress(1);
    await page.page.getByRole("button", { name: "Stop" }).click();
    await page.page.getByText("Stopped.").waitFor();
    const [run] = await runsOf(page.threadId());
    assert.equal(run.status, "interrupted");
    assert.ok(serverUrl && (await get(`/threads/${page.threadId()}`)));
  });
});
