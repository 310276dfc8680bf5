/**
 * Pages for the tests in this folder: a browser context for each test, and a proxy that can cut connections.
 */
import assert from "node:assert/strict";
import { after, before } from "node:test";

import { useBrowserContext } from "../support/browser.js";
import { openProxy } from "../support/proxy.js";
import { timelinePage } from "./timeline.js";

/** Call it once, at the top of a file. */
export function usePages() {
  const context = useBrowserContext();
  /** @type {Awaited<ReturnType<typeof openProxy>>} */
  let proxy;
  before(async () => void (proxy = await openProxy()));
  after(() => proxy.close());
  return {
    context,
    proxy: () => proxy,
    /** A page of the device of this test, or of another one. Reports take four seconds. */
    async openPage({ agent = "approvals", threadId = "", query = "?seconds=4", device = context() } = {}) {
      const page = timelinePage(await device.newPage());
      await page.open(proxy.url, agent, threadId, query);
      return page;
    },
    /** @param {import("playwright-core").BrowserContextOptions} [options] */
    async anotherDevice(options) {
      const device = await context().browser()?.newContext(options);
      assert.ok(device);
      return device;
    },
  };
}

/** @param {ReturnType<typeof timelinePage>} page */
export async function askedThree(page) {
  await page.send("Review the expenses");
  await page.waitForOpen(3);
  await page.waitUntilIdle();
}
