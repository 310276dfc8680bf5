/**
 * A note of what a tour has used, for docs/reference/conformance.md: tests/e2e/test_conformance_page.py reads it.
 */
import { writeFileSync } from "node:fs";
import { after } from "node:test";

/** @type {Set<string>} */
const there = new Set();
/** @type {Set<string>} */
const used = new Set();

after(() => {
  const report = process.env.TOUR_REPORT;
  if (report) writeFileSync(report, JSON.stringify({ there: [...there], used: [...used] }));
});

/** @param {string[]} names */
export const mention = (names) => names.forEach((name) => there.add(name));

/** @param {string} name */
export const note = (name) => void used.add(name);

/**
 * A client of the SDK whose methods are noted once they have kept what they promised.
 *
 * @param {any} client
 * @param {string[]} subjects
 */
export function noted(client, subjects) {
  return Object.fromEntries(subjects.map((subject) => [subject, notedSubject(client[subject], subject)]));
}

/**
 * @param {any} target
 * @param {string} subject
 */
function notedSubject(target, subject) {
  const names = Object.getOwnPropertyNames(Object.getPrototypeOf(target)).filter((name) => name !== "constructor");
  mention(names.map((name) => `${subject}.${name}`));
  return Object.fromEntries(
    names.map((name) => [
      name,
      (/** @type {any[]} */ ...given) => kept(target[name](...given), () => note(`${subject}.${name}`)),
    ]),
  );
}

/**
 * @param {any} result a promise, or a stream
 * @param {() => void} then
 */
function kept(result, then) {
  if (!result?.[Symbol.asyncIterator]) return result.then((/** @type {any} */ value) => (then(), value));
  return (async function* () {
    for await (const part of result) {
      then();
      yield part;
    }
  })();
}
