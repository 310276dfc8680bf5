/**
 * A page with an agent, and everything it was ever told.
 */
import { ThreadwireAgent } from "../../dist/index.js";

/**
 * @param {{ fetch: any }} thread
 * @param {Partial<import("../../dist/index.js").RetryPolicy>} [retry]
 */
export function openPage(thread, retry) {
  const agent = new ThreadwireAgent({
    url: "/ag-ui/a",
    threadId: "thread-1",
    headers: { "X-Key": "secret" },
    fetch: thread.fetch,
    retry: { firstDelay: 0, attempts: 3, ...retry },
  });
  /** @type {any[]} */
  const events = [];
  /** @type {any[]} */
  const shown = [];
  /** @type {boolean[]} */
  const busy = [];
  /** @type {any[]} */
  const statuses = [];
  const show = () => void shown.push(structuredClone({ messages: agent.messages, state: agent.state }));
  agent.subscribe({
    onEvent: ({ event }) => void events.push(event),
    onMessagesChanged: show,
    onStateChanged: show,
    onRunInitialized: () => void busy.push(true),
    onRunFinalized: () => void busy.push(false),
  });
  agent.connection.subscribe((status) => void statuses.push(status));
  return { agent, events, shown, busy, statuses, states: () => statuses.map(({ state }) => state) };
}

/** @template T @param {() => T | Promise<T>} look @param {string} what @returns {Promise<NonNullable<T>>} */
export async function until(look, what) {
  const deadline = performance.now() + 10_000;
  for (;;) {
    const found = await look();
    if (found) return found;
    if (performance.now() > deadline) throw new Error(`Waited in vain until ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}
