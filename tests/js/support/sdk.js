/**
 * The SDK under test and the server it talks to, as tests/e2e/test_js_clients.py names them.
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

/** A client that gives up at once, so that an error is seen as the server sent it. */
export const client = new Client({ apiUrl, callerOptions: { maxRetries: 0 } });

/** @param {string} text */
export const says = (text) => ({ messages: [{ role: "user", content: text }] });

/**
 * @template T
 * @param {AsyncIterable<T>} stream
 * @returns {Promise<T[]>}
 */
export async function all(stream) {
  const parts = [];
  for await (const part of stream) parts.push(part);
  return parts;
}

/**
 * Everything `stream` says, but act as soon as it has said something that `matches`.
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
 * The events of a stream by name, in the order of their first appearance.
 *
 * @param {{ event: string }[]} parts
 */
export const names = (parts) => [...new Set(parts.map((part) => part.event))];
