/**
 * Debian's Chromium, driven by Playwright's library. What a page says on its console as an error, or throws, is kept.
 */
import { existsSync } from "node:fs";

import { chromium } from "playwright-core";

const executablePath = ["/usr/bin/chromium", "/usr/bin/google-chrome"].find(existsSync);
if (!executablePath) throw new Error("These tests need Chromium: `make test` installs it, if it may.");

export const openBrowser = () => chromium.launch({ executablePath, args: ["--no-sandbox"] });

/** @param {import("playwright-core").Page} page */
export function complaintsOf(page) {
  /** @type {string[]} */
  const complaints = [];
  page.on("pageerror", (error) => void complaints.push(error.message));
  page.on("console", (message) => {
    if (message.type() === "error") complaints.push(message.text());
  });
  return complaints;
}
