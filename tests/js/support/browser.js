/**
 * The system's Chromium, driven by Playwright.
 */
import { existsSync } from "node:fs";
import { after, afterEach, before, beforeEach } from "node:test";

import { chromium } from "playwright-core";

const executablePath = ["/usr/bin/chromium", "/usr/bin/google-chrome"].find(existsSync);
if (!executablePath) throw new Error("These tests need Chromium. `make test` installs it if it has permission.");

export const openBrowser = () => chromium.launch({ executablePath, args: ["--no-sandbox"] });

/**
 * Open one browser for all tests of a file, and a new context for each test. Call it once, at the top of the file.
 * Returns a function that returns the context of the current test.
 */
export function useBrowserContext() {
  /** @type {import("playwright-core").Browser} */
  let browser;
  /** @type {import("playwright-core").BrowserContext} */
  let context;
  before(async () => void (browser = await openBrowser()));
  after(() => browser.close());
  beforeEach(async () => void (context = await browser.newContext()));
  afterEach(() => context.close());
  return () => context;
}

/** Collect the errors that a page throws or logs. @param {import("playwright-core").Page} page */
export function collectErrors(page) {
  /** @type {string[]} */
  const errors = [];
  page.on("pageerror", (error) => void errors.push(error.message));
  page.on("console", (message) => {
    if (message.type() === "error") errors.push(message.text());
  });
  return errors;
}
