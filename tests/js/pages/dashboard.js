/**
 * The dashboard as the user sees it, and requests to the API.
 */
import { post, serverUrl } from "../support/api.js";

export const METRICS = ["income_7d", "apy", "users", "aum", "points"];

/** Start a run through the API. @param {string} threadId */
export const refresh = (threadId) =>
  post(`/threads/${threadId}/runs`, { assistant_id: "dashboard", input: { refresh: true }, multitask_strategy: "enqueue" });

/** Make the next refresh of the thread fail. @param {string} threadId */
export const breakNextRefresh = (threadId) =>
  post(`/threads/${threadId}/state`, { values: { refreshes: "many" }, as_node: "refresh" });

/**
 * @param {import("playwright-core").Page} page
 * @param {string} [query]
 */
export async function openDashboard(page, query = "") {
  // Record every value that a card shows, in order, to detect a value that disappears briefly.
  await page.addInitScript(() => {
    /** @type {Record<string, string[]>} */
    const shown = {};
    Object.assign(window, { shown });
    new MutationObserver(() => {
      for (const card of document.querySelectorAll("[data-metric]")) {
        const values = (shown[/** @type {HTMLElement} */ (card).dataset["metric"] ?? ""] ??= []);
        const value = card.querySelector(".value")?.textContent ?? "";
        if (values.at(-1) !== value) values.push(value);
      }
    }).observe(document, { childList: true, subtree: true, characterData: true });
  });
  await page.goto(`${serverUrl}/dashboard/${query}`);
  return {
    threadId: () => page.evaluate(() => localStorage.getItem("threadwire-dashboard-thread") ?? ""),
    /** @returns {Promise<string[]>} the values of the cards */
    figures: () => page.locator("[data-metric] .value").allTextContents(),
    /** @returns {Promise<Record<string, string[]>>} all values that the cards have shown */
    everShown: () => page.evaluate(() => Object(window)["shown"]),
    status: () => page.getByRole("status").innerText(),
    /** @param {string} text */
    waitForStatus: (text) => page.getByRole("status").getByText(text).waitFor(),
    alerts: () => page.getByRole("alert").allInnerTexts(),
    /** @param {string} text */
    waitForAlert: (text) => page.getByRole("alert").getByText(text).waitFor(),
    /** Resolves once no run is active. */
    waitUntilIdle: () => page.getByRole("button", { name: "Refresh", exact: true, disabled: false }).waitFor(),
    waitForFigures: () => page.locator('[data-metric="points"] .change').waitFor(),
    /** @param {string} text */
    async send(text) {
      await page.locator("textarea").fill(text);
      await page.locator("textarea").press("Enter");
    },
    conversation: () => page.locator(".chat").innerText(),
    /** @param {string | RegExp} text */
    waitForChatText: (text) => page.locator(".chat").getByText(text).first().waitFor(),
    button: (/** @type {string} */ name) => page.getByRole("button", { name, exact: true }),
  };
}
