/**
 * The pictures of the documentation, in docs/images: pages as the tests have them before their eyes. Beside each lies
 * what its page says, in words. A page that says something else needs a new picture: `WRITE_PAGES=1 pytest` on the test
 * takes it.
 */
import assert from "node:assert/strict";
import { readFileSync, statSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

import { until } from "./until.js";

const IMAGES = fileURLToPath(new URL("../../../docs/images/", import.meta.url));
const AT_MOST = 150_000;
const AT_REST = 1_000;
const MOMENT = /\d+\/\d+\/\d+, [\d:]+\s[AP]M/g;

/** @param {import("playwright-core").Locator} part of a page @param {string} name */
export async function picture(part, name) {
  const [image, words] = [`${IMAGES}${name}.png`, `${IMAGES}${name}.txt`];
  if (process.env["WRITE_PAGES"]) {
    writeFileSync(words, await restingWords(part));
    await part.screenshot({ path: image, animations: "disabled", caret: "hide" });
  }
  const expected = readFileSync(words, "utf8");
  await until(`the page says what ${name}.png shows`, async () => (await wordsOf(part)) === expected).catch(async () => {
    assert.equal(await wordsOf(part), expected, `${name}.png is of another page: \`WRITE_PAGES=1 pytest\` takes it anew`);
  });
  assert.ok(statSync(image).size <= AT_MOST, `${name}.png is too large`);
}

/** @param {import("playwright-core").Locator} part */
const wordsOf = async (part) => `${(await part.ariaSnapshot()).replaceAll(MOMENT, "just now")}\n`;

/** What it says once it has said the same for a while. @param {import("playwright-core").Locator} part */
async function restingWords(part) {
  for (;;) {
    const words = await wordsOf(part);
    await new Promise((resolve) => setTimeout(resolve, AT_REST));
    if (words === (await wordsOf(part))) return words;
  }
}
