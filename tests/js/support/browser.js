/**
 * Debian's Chromium, driven by Playwright's library. What a page says on its console as an error, or throws, is kept.
 */
import { existsSync } from "node:fs";
import { after, afterEach, before, beforeEach } from "node:test";

import { chromium } from "playwright-core";

const executablePath = ["/usr/bin/chromium", "/usr/bin/google-chrome"].find(existsSync);
if (!executablePath) throw new Error("These tests need Chromium: `make test` installs it, if it may.");

export const openBrowser = () => chromium.launch({ executablePath, args: ["--no-sandbox"] });

/**
 * A browser for all tests of a file, and for each of them a person who has not been there before. To be called once, at
 * the top of the file.
 */
export function eachTestHasAPerson() {
  /** @type {import("playwright-core").Browser} */
  let browser;
  /** @type {import("playwright-core").BrowserContext} */
  let person;
  before(async () => void (browser = await openBrowser()));
  after(() => browser.close());
  beforeEach(async () => void (person = await browser.newContext()));
  afterEach(() => person.close());
  return () => person;
}

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
