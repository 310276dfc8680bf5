/**
 * The page of tests/copilotkit-page in a browser: what the user sees and does, and the requests to the server.
 * Completed streams are also checked, because CopilotKit ends a stream silently at an event that it does not accept.
 */
import { appendFileSync, mkdtempSync, writeFileSync } from "node:fs";
import { randomUUID } from "node:crypto";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { check } from "../agui/check.js";
import { serverUrl } from "../support/api.js";
import { collectErrors } from "../support/browser.js";
import { until } from "../support/until.js";

/** The provider and the transport under test. */
const setup = new URLSearchParams(process.env["SETUP"] ?? "");
export const v1 = setup.has("v1");

export const newThread = () => `page ${randomUUID()}`;

/**
 * Controls the reply of the agent `dictated` while it is streamed.
 */
export function dictation() {
  const file = join(mkdtempSync(join(tmpdir(), "dictation-")), "text");
  writeFileSync(file, "");
  return {
    properties: { dictation: file },
    /** @param {string} text */
    write: (text) => appendFileSync(file, text),
    end: () => appendFileSync(file, "\n"),
  };
}

/**
 * @param {import("playwright-core").BrowserContext} context
 * @param {{ agent?: string, thread?: string, properties?: any, with?: string }} options
 */
export async function openPage(context, { properties, ...options }) {
  const page = await context.newPage();
  page.setDefaultTimeout(20_000);
  const streams = await recordStreams(page);
  const requests = recordRequests(page);
  const consoleErrors = collectErrors(page);
  const query = new URLSearchParams({ server: serverUrl, ...options, ...Object.fromEntries(setup) });
  if (properties) query.set("properties", JSON.stringify(properties));
  await page.goto(`${process.env["PAGE_URL"]}/?${query}`);

  const chat = page.getByTestId("copilot-chat");
  const agent = (/** @type {string} */ field) => page.evaluate((name) => Object(window)["agent"]?.[name], field);
  const tab = {
    page,
    chat,
    consoleErrors,
    /** The requests since the page was last loaded: `info`, `connect`, `run`, `stop`… */
    requests,
    requestsTo: (/** @type {string} */ name) => requests.filter((each) => each.name === name),
    /** @returns {Promise<string[]>} the messages of the chat, in order */
    shown: () => chat.locator('[data-testid="copilot-user-message"], [data-testid="copilot-assistant-message"]').allInnerTexts(),
    /** @param {...string} texts */
    expectMessages: (...texts) => until(`the chat shows ${JSON.stringify(texts)}`, async () => same(await tab.shown(), texts)),
    /** Resolves once the chat is loaded, if it is empty. */
    expectEmpty: () =>
      until("the chat is loaded and empty", async () => {
        const connected = options.thread === undefined || streams.length > 0;
        return connected && (await tab.isRunning()) === false && (await tab.shown()).length === 0;
      }),
    /** @returns {Promise<any[]>} the messages of the agent on the page */
    messages: () => agent("messages"),
    state: () => agent("state"),
    isRunning: () => agent("isRunning"),
    waitUntilIdle: () => until("no run is active", async () => (await tab.isRunning()) === false),
    /** @returns {Promise<{ code: string, message: string }[]>} the errors passed to `onError` */
    errors: () => page.evaluate(() => Object(window)["errors"]),
    /** @param {RegExp} pattern */
    expectError: (pattern) =>
      until(`onError gets ${pattern}`, async () => (await tab.errors()).find(({ message }) => pattern.test(message))),
    async send(/** @type {string} */ text) {
      await page.getByTestId("copilot-chat-textarea").fill(text);
      await page.getByTestId("copilot-chat-textarea").press("Enter");
    },
    stop: () => page.getByTestId("copilot-send-button").click(),
    async reload() {
      requests.length = 0;
      await page.reload();
    },
    /** @param {string} name */
    click: (name) => page.getByRole("button", { name, exact: true }).first().click(),
    /** @returns {Promise<string[]>} the interrupts shown, each with how the page received it */
    interrupts: () =>
      page
        .locator("[data-interrupt]")
        .evaluateAll((all) => all.map((each) => `${each.dataset["interrupt"]}: ${each.querySelector("legend").textContent}`)),
    /** @param {...string} texts */
    expectInterrupts: (...texts) =>
      until(`the page shows ${JSON.stringify(texts)}`, async () => same(await tab.interrupts(), texts)),
    /** Answer one of several interrupts. @param {string} text @param {string} choice */
    answer: (text, choice) =>
      page.locator("[data-interrupt]", { hasText: text }).getByRole("button", { name: choice, exact: true }).click(),
    /** Wait for the status of the human-in-the-loop tool call. @param {string} status */
    expectToolCall: (status) => page.locator(`[data-request="${status}"]`).waitFor(),
    /** Check the completed streams. Throws if one is invalid, or if there are none. */
    async checkStreams() {
      if (!streams.length) throw new Error("No stream is complete");
      for (const text of streams.splice(0)) {
        const { problems } = await check({ bytes: new TextEncoder().encode(text) });
        if (problems.length) throw new Error([...problems, text].join("\n"));
      }
    },
  };
  return tab;
}

/** @param {any} one @param {any} other */
const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);

/**
 * Record the text of every completed stream.
 *
 * @param {import("playwright-core").Page} page
 */
async function recordStreams(page) {
  /** @type {string[]} */
  const streams = [];
  await page.exposeFunction("streamed", (/** @type {string} */ text) => void streams.push(text));
  await page.addInitScript(() => {
    const originalFetch = window.fetch;
    window.fetch = async (...args) => {
      const response = await originalFetch(...args);
      if (response.headers.get("content-type")?.startsWith("text/event-stream")) {
        // Ignore streams that were aborted or cut off.
        response.clone().text().then(Object(window)["streamed"], () => {});
      }
      return response;
    };
  });
  return streams;
}

/**
 * Record the requests to the runtime, with the same names on both transports.
 *
 * @param {import("playwright-core").Page} page
 */
function recordRequests(page) {
  /** @type {{ name: string, body: any }[]} */
  const requests = [];
  page.on("request", (request) => {
    const [, path] = request.url().split("/copilotkit");
    if (path === undefined || request.method() === "OPTIONS") return;
    const sent = JSON.parse(request.postData() ?? "null");
    const name = path.replace("/", "") ? path.split("?")[0] : `/${sent.method}`;
    requests.push({
      name: (/\/(info|run|connect|stop|threads)/.exec(name ?? "") ?? [])[1] ?? String(name),
      body: path.replace("/", "") ? sent : sent.body,
    });
  });
  return requests;
}
