/**
 * Records which methods a tour has used, for docs/reference/conformance.md. Read by tests/e2e/test_conformance_page.py.
 */
import { writeFileSync } from "node:fs";
import { after } from "node:test";

/** @type {Set<string>} */
const available = new Set();
/** @type {Set<string>} */
const used = new Set();

after(() => {
  const report = process.env.TOUR_REPORT;
  if (report) writeFileSync(report, JSON.stringify({ there: [...available], used: [...used] }));
});

/** @param {string[]} names */
export const declareAvailable = (names) => names.forEach((name) => available.add(name));

/** @param {string} name */
export const markUsed = (name) => void used.add(name);

/**
 * A client of the SDK that marks its methods as used once they have succeeded.
 *
 * @param {any} client
 * @param {string[]} subjects
 */
export function recordCalls(client, subjects) {
  return Object.fromEntries(subjects.map((subject) => [subject, recordMethods(client[subject], subject)]));
}

/**
 * @param {any} target
 * @param {string} subject
 */
function recordMethods(target, subject) {
  const names = Object.getOwnPropertyNames(Object.getPrototypeOf(target)).filter((name) => name !== "constructor");
  declareAvailable(names.map((name) => `${subject}.${name}`));
  return Object.fromEntries(
    names.map((name) => [
      name,
      (/** @type {any[]} */ ...args) => onSuccess(target[name](...args), () => markUsed(`${subject}.${name}`)),
    ]),
  );
}

/**
 * @param {any} result a promise, or a stream
 * @param {() => void} callback
 */
function onSuccess(result, callback) {
  if (!result?.[Symbol.asyncIterator]) return result.then((/** @type {any} */ value) => (callback(), value));
  return (async function* () {
    for await (const part of result) {
      callback();
      yield part;
    }
  })();
}
