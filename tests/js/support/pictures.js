/**
 * The screenshots of the documentation, in docs/images, taken by the tests. Next to each is the text content of the
 * page. When the content changes, the screenshot must be retaken: run the test with `WRITE_PAGES=1 pytest`.
 */
import assert from "node:assert/strict";
import { readFileSync, statSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

import { until } from "./until.js";

const IMAGES = fileURLToPath(new URL("../../../docs/images/", import.meta.url));
const MAX_BYTES = 150_000;
const STABLE_MILLISECONDS = 1_000;
const TIMESTAMP = /\d+\/\d+\/\d+, [\d:]+\s[AP]M|\d\d:\d\d [AP]M/g;
const UUID = /[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g;

/** @param {import("playwright-core").Locator} part of a page @param {string} name */
export async function checkPicture(part, name) {
  const [image, textFile] = [`${IMAGES}${name}.png`, `${IMAGES}${name}.txt`];
  if (process.env["WRITE_PAGES"]) {
    writeFileSync(textFile, await stableText(part));
    await part.screenshot({ path: image, animations: "disabled", caret: "hide" });
  }
  const expected = readFileSync(textFile, "utf8");
  await until(`the page has the content of ${name}.png`, async () => (await textOf(part)) === expected).catch(async () => {
    assert.equal(await textOf(part), expected, `${name}.png is outdated: retake it with \`WRITE_PAGES=1 pytest\``);
  });
  assert.ok(statSync(image).size <= MAX_BYTES, `${name}.png is too large`);
}

/** @param {import("playwright-core").Locator} part */
const textOf = async (part) =>
  `${(await part.ariaSnapshot()).replaceAll(TIMESTAMP, "just now").replaceAll(UUID, "(an id)")}\n`;

/** The text once it has not changed for a while. @param {import("playwright-core").Locator} part */
async function stableText(part) {
  for (;;) {
    const text = await textOf(part);
    await new Promise((resolve) => setTimeout(resolve, STABLE_MILLISECONDS));
    if (text === (await textOf(part))) return text;
  }
}
