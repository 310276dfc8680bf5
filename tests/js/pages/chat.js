/** The chat page as the user sees it, and requests to its server. */
import assert from "node:assert/strict";

import { post } from "../support/api.js";
import { until } from "../support/until.js";

/** Call an operation of ChatKit's protocol. @param {string} agent @param {string} type @param {object} params */
export const operate = (agent, type, params) => post(`/chatkit/${agent}`, { type, params });

/** @param {string} agent @param {string} threadId @returns {Promise<any[]>} */
export const serverItems = async (agent, threadId) =>
  (await operate(agent, "items.list", { thread_id: threadId, limit: 100, order: "asc" })).data;

/** @param {import("playwright-core").Page} page */
export function chatPage(page) {
  const self = {
    page,
    threadId: () => page.url().split("#")[1]?.split("/")[2] ?? "",
    /** @param {string} url @param {string} agent @param {string} [threadId] */
    async open(url, agent, threadId) {
      await page.goto(`${url}/chat/?element=open#/${agent}${threadId ? `/${threadId}` : ""}`);
      await self.log.or(page.getByRole("heading", { level: 1 })).first().waitFor();
    },
    message: page.getByLabel("Message"),
    log: page.getByRole("log"),
    /** @param {string} text */
    async send(text) {
      await self.message.fill(text);
      await self.message.press("Enter");
    },
    answers: page.getByRole("article", { name: "Assistant" }),
    own: page.getByRole("article", { name: "You" }),
    cards: page.getByLabel("Card", { exact: true }),
    steps: page.getByRole("region", { name: "Steps" }),
    /** @param {string | RegExp} name */
    button: (name) => page.getByRole("button", { name }),
    /** Resolves once a response has been received to its end. */
    async waitUntilIdle() {
      await until("no response is received", async () => (await self.log.getAttribute("aria-busy")) === "false");
    },
    /** Ask, and wait for the whole response. @param {string} text */
    async ask(text) {
      await self.send(text);
      await self.own.getByText(text).last().waitFor();
      await self.waitUntilIdle();
      // The page loads the thread once more after a response, which may move what a test is about to click.
      await page.evaluate(() => Object(document.querySelector("openai-chatkit")).fetchUpdates?.().catch(() => {}));
    },
    /** What every item shows. */
    shown: () =>
      self.log.locator("[data-id]").evaluateAll((items) => items.map((each) => [each.getAttribute("data-id"), each.textContent])),
    /** The items on this page are those of the server, in its order. @param {string} agent */
    async checkAgainstServer(agent) {
      const shown = async () => (await self.shown()).map(([id]) => id);
      const expected = (await serverItems(agent, self.threadId())).map(({ id }) => id);
      await until("the page shows the server's items", async () => String(await shown()) === String(expected)).catch(async () =>
        assert.deepEqual(await shown(), expected),
      );
    },
  };
  return self;
}
