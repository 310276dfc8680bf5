/**
 * An agent, and a record of everything it reported.
 */
import { ThreadwireAgent } from "../../dist/index.js";

/**
 * @param {{ fetch: any }} thread
 * @param {Partial<import("../../dist/index.js").RetryPolicy>} [retry]
 */
export function openAgent(thread, retry) {
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
  const record = () => void shown.push(structuredClone({ messages: agent.messages, state: agent.state }));
  agent.subscribe({
    onEvent: ({ event }) => void events.push(event),
    onMessagesChanged: record,
    onStateChanged: record,
    onRunInitialized: () => void busy.push(true),
    onRunFinalized: () => void busy.push(false),
  });
  agent.connection.subscribe((status) => void statuses.push(status));
  return { agent, events, shown, busy, statuses, states: () => statuses.map(({ state }) => state) };
}

/** @template T @param {() => T | Promise<T>} condition @param {string} what @returns {Promise<NonNullable<T>>} */
export async function until(condition, what) {
  const deadline = performance.now() + 10_000;
  for (;;) {
    const result = await condition();
    if (result) return result;
    if (performance.now() > deadline) throw new Error(`Timed out waiting until ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}
