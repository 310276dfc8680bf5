/**
 * The page of tests/copilotkit-page in a browser: what a person sees and does, and what passes between page and
 * server. Every stream that comes to its end is judged, because CopilotKit ends one in silence on an event it dislikes.
 */
import { appendFileSync, mkdtempSync, writeFileSync } from "node:fs";
import { randomUUID } from "node:crypto";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { check } from "../agui/check.js";
import { serverUrl } from "../support/api.js";
import { complaintsOf } from "../support/browser.js";
import { until } from "../support/until.js";

/** How pages are set up in this run: which provider, which transport. */
const setup = new URLSearchParams(process.env["SETUP"] ?? "");
export const v1 = setup.has("v1");

export const newThread = () => `page ${randomUUID()}`;

/**
 * What the agent `dictated` says, while it says it.
 */
export function dictation() {
  const file = join(mkdtempSync(join(tmpdir(), "dictation-")), "words");
  writeFileSync(file, "");
  return {
    properties: { dictation: file },
    /** @param {string} words */
    say: (words) => appendFileSync(file, words),
    end: () => appendFileSync(file, "\n"),
  };
}

/**
 * @param {import("playwright-core").BrowserContext} person
 * @param {{ agent?: string, thread?: string, properties?: any, with?: string }} asked
 */
export async function openPage(person, { properties, ...asked }) {
  const page = await person.newPage();
  page.setDefaultTimeout(20_000);
  const streams = await streamsOf(page);
  const requests = requestsOf(page);
  const complaints = complaintsOf(page);
  const query = new URLSearchParams({ server: serverUrl, ...asked, ...Object.fromEntries(setup) });
  if (properties) query.set("properties", JSON.stringify(properties));
  await page.goto(`${process.env["PAGE_URL"]}/?${query}`);

  const chat = page.getByTestId("copilot-chat");
  const agent = (/** @type {string} */ field) => page.evaluate((name) => Object(window)["agent"]?.[name], field);
  const here = {
    page,
    chat,
    complaints,
    /** What was asked of the server since the page was loaded last: `info`, `connect`, `run`, `stop`… */
    requests,
    asked: (/** @type {string} */ name) => requests.filter((each) => each.name === name),
    /** @returns {Promise<string[]>} what the chat shows, in the order of the conversation */
    shown: () => chat.locator('[data-testid="copilot-user-message"], [data-testid="copilot-assistant-message"]').allInnerTexts(),
    /** @param {...string} texts */
    shows: (...texts) => until(`the chat shows ${JSON.stringify(texts)}`, async () => same(await here.shown(), texts)),
    /** Once the chat has been shown all there is, and that is nothing. */
    isEmpty: () =>
      until("an empty chat is there", async () => {
        const connected = asked.thread === undefined || streams.length > 0;
        return connected && (await here.running()) === false && (await here.shown()).length === 0;
      }),
    /** @returns {Promise<any[]>} the messages that the page holds */
    messages: () => agent("messages"),
    state: () => agent("state"),
    running: () => agent("isRunning"),
    atRest: () => until("nothing runs", async () => (await here.running()) === false),
    /** @returns {Promise<{ code: string, message: string }[]>} what `onError` was called with */
    errors: () => page.evaluate(() => Object(window)["errors"]),
    /** @param {RegExp} what */
    saysError: (what) => until(`onError says ${what}`, async () => (await here.errors()).find(({ message }) => what.test(message))),
    async ask(/** @type {string} */ text) {
      await page.getByTestId("copilot-chat-textarea").fill(text);
      await page.getByTestId("copilot-chat-textarea").press("Enter");
    },
    stop: () => page.getByTestId("copilot-send-button").click(),
    async reload() {
      requests.length = 0;
      await page.reload();
    },
    /** @param {string} name */
    press: (name) => page.getByRole("button", { name, exact: true }).first().click(),
    /** @returns {Promise<string[]>} the questions that are asked, and how the page was told of each */
    questions: () => page.locator("[data-question]").evaluateAll((all) => all.map((each) => `${each.dataset["question"]}: ${each.querySelector("legend").textContent}`)),
    /** @param {...string} texts */
    asksFor: (...texts) => until(`it asks ${JSON.stringify(texts)}`, async () => same(await here.questions(), texts)),
    /** Answer one of several questions. @param {string} question @param {string} choice */
    answer: (question, choice) =>
      page.locator("[data-question]", { hasText: question }).getByRole("button", { name: choice, exact: true }).click(),
    /** How it stands with what a tool asks a person. @param {string} status */
    requestIs: (status) => page.locator(`[data-request="${status}"]`).waitFor(),
    /** Throws what is wrong with the streams that have come to their ends, and if there are none. */
    async judge() {
      if (!streams.length) throw new Error("no stream has come to its end");
      for (const text of streams.splice(0)) {
        const { problems } = await check({ bytes: new TextEncoder().encode(text) });
        if (problems.length) throw new Error([...problems, text].join("\n"));
      }
    },
  };
  return here;
}

/** @param {any} one @param {any} other */
const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);

/**
 * The text of every stream that came to its end.
 *
 * @param {import("playwright-core").Page} page
 */
async function streamsOf(page) {
  /** @type {string[]} */
  const streams = [];
  await page.exposeFunction("streamed", (/** @type {string} */ text) => void streams.push(text));
  await page.addInitScript(() => {
    const fetching = window.fetch;
    window.fetch = async (...asked) => {
      const response = await fetching(...asked);
      if (response.headers.get("content-type")?.startsWith("text/event-stream")) {
        // One that is left or cut off has no end to be judged.
        response.clone().text().then(Object(window)["streamed"], () => {});
      }
      return response;
    };
  });
  return streams;
}

/**
 * What the page asks of the runtime, called alike on both transports.
 *
 * @param {import("playwright-core").Page} page
 */
function requestsOf(page) {
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
