const TIMEOUT = 60_000;
const INTERVAL = 20;

/**
 * Poll `condition` and resolve with its first truthy result. Rejects after `timeout` milliseconds, naming `what`.
 *
 * @template T
 * @param {string} what
 * @param {() => T | Promise<T>} condition
 * @returns {Promise<NonNullable<T>>}
 */
export async function until(what, condition, timeout = TIMEOUT) {
  const deadline = performance.now() + timeout;
  for (;;) {
    const result = await condition();
    if (result) return result;
    if (performance.now() > deadline) throw new Error(`Timed out after ${timeout} ms waiting until ${what}`);
    await new Promise((resolve) => setTimeout(resolve, INTERVAL));
  }
}
