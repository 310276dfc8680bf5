const PATIENCE = 20_000;
const GLANCE = 20;

/**
 * Resolves with the first truthy answer of `look`, and fails, saying `what` never came, when there is none in time.
 *
 * @template T
 * @param {string} what
 * @param {() => T | Promise<T>} look
 * @returns {Promise<NonNullable<T>>}
 */
export async function until(what, look, patience = PATIENCE) {
  const deadline = performance.now() + patience;
  for (;;) {
    const found = await look();
    if (found) return found;
    if (performance.now() > deadline) throw new Error(`Waited ${patience} ms in vain until ${what}`);
    await new Promise((resolve) => setTimeout(resolve, GLANCE));
  }
}
