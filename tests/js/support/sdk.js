/**
 * The SDK and the server under test, which tests/e2e/test_js_clients.py passes in the environment.
 */

/** @param {string} name */
function required(name) {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set: run these tests with pytest tests/e2e/test_js_clients.py`);
  return value;
}

/** The alias in package.json: `langgraph-sdk-1` or `langgraph-sdk-2`. */
export const sdk = required("SDK");
export const apiUrl = required("SERVER_URL");

const { Client } = await import(sdk);

/** A client without retries, so that tests see errors as the server sent them. */
export const client = new Client({ apiUrl, callerOptions: { maxRetries: 0 } });

/** @param {string} text */
export const userInput = (text) => ({ messages: [{ role: "user", content: text }] });

/**
 * @template T
 * @param {AsyncIterable<T>} stream
 * @returns {Promise<T[]>}
 */
export async function collect(stream) {
  const parts = [];
  for await (const part of stream) parts.push(part);
  return parts;
}

/**
 * Collect everything from `stream`, and call `act` once, at the first part that `matches`.
 *
 * @template T
 * @param {AsyncIterable<T>} stream
 * @param {(part: T) => boolean} matches
 * @param {(part: T) => unknown} act
 * @returns {Promise<T[]>}
 */
export async function actOnce(stream, matches, act) {
  const parts = [];
  let acted = false;
  for await (const part of stream) {
    parts.push(part);
    if (acted || !matches(part)) continue;
    acted = true;
    await act(part);
  }
  return parts;
}

/**
 * The distinct event names of a stream, in order of first appearance.
 *
 * @param {{ event: string }[]} parts
 */
export const eventNames = (parts) => [...new Set(parts.map((part) => part.event))];
