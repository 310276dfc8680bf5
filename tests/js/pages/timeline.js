/** The timeline page as the user sees it, and requests to the API. */
import assert from "node:assert/strict";
import { isDeepStrictEqual } from "node:util";

import { post, serverUrl } from "../support/api.js";
import { until } from "../support/until.js";

/** @param {string} path */
export const get = async (path) => (await fetch(serverUrl + path)).json();

/** @param {string} threadId @returns {Promise<any[]>} */
export const serverBlocks = async (threadId) => (await get(`/threads/${threadId}/timeline?limit=1000`)).blocks;

/** The blocks that the page has stored in its browser, with every field. Runs in the page. @param {string} threadId */
async function storedBlocks(threadId) {
  /** @type {<T>(request: IDBRequest<T>) => Promise<T>} */
  const result = (request) =>
    new Promise((resolve, reject) => {
      request.onsuccess = () => resolve(request.result);
      request.onerror = () => reject(request.error);
    });
  const database = await result(indexedDB.open("threadwire-timeline"));
  const transaction = database.transaction(["threads", "blocks"]);
  const headers = transaction.objectStore("threads").getAll();
  const keys = transaction.objectStore("blocks").getAllKeys();
  const blocks = await result(transaction.objectStore("blocks").getAll());
  database.close();
  const isHere = (/** @type {number} */ at) => /** @type {string[]} */ (keys.result[at])[1] === threadId;
  const found = new Map(blocks.filter((_, at) => isHere(at)).map((block) => [block.id, block]));
  const { order } = headers.result.find((each) => each.threadId === threadId) ?? { order: [] };
  return order.map((/** @type {string} */ id) => found.get(id));
}

/** @param {string} threadId */
export const runsOf = (threadId) => get(`/threads/${threadId}/runs?limit=100`);

/** Start a run through the API. @param {string} threadId @param {string} agent @param {string} text */
export const startRun = (threadId, agent, text) =>
  post(`/threads/${threadId}/runs`, { assistant_id: agent, input: { messages: [{ type: "human", content: text }] }, context: { seconds: 1 } });

/** @param {import("playwright-core").Page} page */
export function timelinePage(page) {
  const row = (/** @type {string} */ id) => page.locator(`[data-block="${id}"]`);
  const self = {
    page,
    row,
    threadId: () => decodeURIComponent(page.url().split("/").at(-1) ?? ""),
    /** @param {string} url @param {string} agent @param {string} [threadId] @param {string} [query] */
    open: (url, agent, threadId, query = "") => page.goto(`${url}/timeline/${query}#/${agent}${threadId ? `/${threadId}` : ""}`),
    /** @returns {Promise<string[]>} */
    ids: () => page.locator("[data-block]").evaluateAll((rows) => rows.map((each) => each.getAttribute("data-block") ?? "")),
    /** What every block shows, without what differs between devices. */
    shown: async () => {
      const rows = await page.locator("[data-block]").evaluateAll((rows) =>
        rows.map((each) => {
          const inputs = [...each.querySelectorAll("input")].map((input) => (input.type === "radio" ? input.checked : input.value));
          return [each.getAttribute("data-block"), each.textContent, ...inputs];
        }),
      );
      return JSON.parse(JSON.stringify(rows).replaceAll("Answered on another device", "Answered"));
    },
    /** @param {string} text */
    async send(text) {
      await page.getByLabel("Message").fill(text);
      await page.getByLabel("Message").press("Enter");
    },
    questions: () => page.locator("section.question"),
    /** @param {string} title */
    question: (title) => page.getByRole("region", { name: title }),
    open_: () => page.locator('section.question[data-phase="open"]'),
    status: () => page.getByLabel("Connection"),
    /** @param {string} text */
    waitForStatus: (text) => page.getByLabel("Connection").getByText(text).waitFor(),
    /** @param {number} count */
    waitForOpen: (count) => until(`${count} questions are open`, async () => (await self.open_().count()) === count),
    waitUntilIdle: () => until("no run is active", async () => (await page.getByRole("button", { name: "Stop" }).count()) === 0),
    /** Resolves once the report agent has read so many sources. @param {number} least */
    waitForProgress: (least) =>
      until(`${least} sources are read`, async () => {
        const text = await page.locator(".progress, .chart").first().innerText({ timeout: 20_000 });
        return text.startsWith("Demand") || Number(/(\d) of 8/.exec(text)?.[1]) >= least;
      }),
    reportText: () => page.locator(".message.ai").last().innerText(),
    /** Resolves once the report is complete. */
    waitForReport: async () => {
      await page.getByLabel("Demand by source").waitFor();
      await self.waitUntilIdle();
    },
    /** The page shows the blocks of the server, in its order, each once. */
    async checkShown() {
      const isDrawn = (/** @type {any} */ { transient, branchId }) => !transient && !branchId;
      const drawn = async () => (await serverBlocks(self.threadId())).filter(isDrawn).map(({ id }) => id);
      await until("the page shows the server's blocks", async () => String(await self.ids()) === String(await drawn()));
      const ids = await self.ids();
      assert.equal(new Set(ids).size, ids.length);
    },
    /** The blocks on this page are those of the server, with every field, in its order, each once. */
    async checkAgainstServer() {
      const threadId = self.threadId();
      await self.checkShown();
      const stored = () => page.evaluate(storedBlocks, threadId);
      const isSame = async () => isDeepStrictEqual(await stored(), await serverBlocks(threadId));
      await until("the page has the server's blocks", isSame).catch(async () => {
        assert.deepEqual(await stored(), await serverBlocks(threadId));
      });
    },
  };
  return self;
}
