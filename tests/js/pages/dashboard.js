/**
 * The dashboard as people see it, and the API beside it.
 */
import { post, serverUrl } from "../support/api.js";

export const METRICS = ["income_7d", "apy", "users", "aum", "points"];

/** A run that no page starts. @param {string} threadId */
export const refresh = (threadId) =>
  post(`/threads/${threadId}/runs`, { assistant_id: "dashboard", input: { refresh: true }, multitask_strategy: "enqueue" });

/** Make the next refresh of that thread fail. @param {string} threadId */
export const spoil = (threadId) =>
  post(`/threads/${threadId}/state`, { values: { refreshes: "many" }, as_node: "refresh" });

/**
 * @param {import("playwright-core").Page} page
 * @param {string} [query]
 */
export async function openDashboard(page, query = "") {
  // Every value that a card ever shows, in order, so that one that was gone for a moment is seen.
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
    /** @returns {Promise<string[]>} what the cards show */
    figures: () => page.locator("[data-metric] .value").allTextContents(),
    /** @returns {Promise<Record<string, string[]>>} what the cards have ever shown */
    everShown: () => page.evaluate(() => Object(window)["shown"]),
    status: () => page.getByRole("status").innerText(),
    /** @param {string} word */
    statusIs: (word) => page.getByRole("status").getByText(word).waitFor(),
    alerts: () => page.getByRole("alert").allInnerTexts(),
    /** @param {string} text */
    alertSays: (text) => page.getByRole("alert").getByText(text).waitFor(),
    /** Once no run is under way. */
    atRest: () => page.getByRole("button", { name: "Refresh", exact: true, disabled: false }).waitFor(),
    hasFigures: () => page.locator('[data-metric="points"] .change').waitFor(),
    /** @param {string} text */
    async ask(text) {
      await page.locator("textarea").fill(text);
      await page.locator("textarea").press("Enter");
    },
    conversation: () => page.locator(".chat").innerText(),
    /** @param {string | RegExp} text */
    chatSays: (text) => page.locator(".chat").getByText(text).first().waitFor(),
    button: (/** @type {string} */ name) => page.getByRole("button", { name, exact: true }),
  };
}
