/** Pages for the tests in this folder: a browser context for each test. */
import assert from "node:assert/strict";

import { serverUrl } from "../support/api.js";
import { useBrowserContext } from "../support/browser.js";
import { chatPage } from "./chat.js";

/** Call it once, at the top of a file. */
export function useChatPages() {
  const context = useBrowserContext();
  return {
    context,
    /** A page of the device of this test, or of another one. */
    async openPage({ agent = "scheduling", threadId = "", device = context() } = {}) {
      const page = chatPage(await device.newPage());
      await page.open(serverUrl, agent, threadId);
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
