/**
 * A page with a `ThreadwireAgent`, built by `make test`, on a thread of its own.
 */
import { randomUUID } from "node:crypto";

import { ThreadwireAgent } from "../../../js/packages/ag-ui/dist/index.js";

const url = process.env["SERVER_URL"];
if (!url) throw new Error("SERVER_URL is not set: run these tests with pytest tests/e2e/test_threadwire_agent.py");

/** @param {{ threadId?: string, fetch?: any }} [options] */
export function openPage({ threadId = randomUUID(), fetch } = {}) {
  const agent = new ThreadwireAgent({ url: `${url}/ag-ui/chat`, threadId, fetch, retry: { firstDelay: 20 } });
  /** @type {any[]} */
  const events = [];
  /** @type {string[]} */
  const states = [];
  agent.subscribe({ onEvent: ({ event }) => void events.push(event) });
  agent.connection.subscribe(({ state }) => void states.push(state));
  return {
    agent,
    events,
    states,
    threadId,
    /** The last thing the assistant said. */
    answer: () => String(agent.messages.findLast(({ role }) => role === "assistant")?.content ?? ""),
    /** @param {string} text @param {number} [delay] seconds before each word of the answer */
    say(text, delay = 0) {
      agent.addMessage({ id: randomUUID(), role: "user", content: text });
      agent.setState({ ...agent.state, delay });
      return agent.runAgent();
    },
  };
}

/**
 * Start a run as a program would, with no page involved.
 *
 * @param {string} threadId
 * @param {any} input
 */
export async function runInBackground(threadId, input) {
  const response = await fetch(`${url}/threads/${threadId}/runs`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ assistant_id: "chat", input, if_not_exists: "create" }),
  });
  if (!response.ok) throw new Error(await response.text());
  return response.json();
}

/**
 * A network that breaks each connection after so many bytes; once they are used up it holds.
 *
 * @param {number[]} limits
 */
export function brittle(limits) {
  /** @type {{ method: string, path: string, cursor: string | null }[]} */
  const requests = [];
  const brittleFetch = async (/** @type {string} */ address, /** @type {RequestInit} */ init) => {
    const headers = new Headers(init.headers);
    requests.push({ method: init.method ?? "GET", path: new URL(address).pathname, cursor: headers.get("last-event-id") });
    const connection = new AbortController();
    const signal = init.signal ? AbortSignal.any([init.signal, connection.signal]) : connection.signal;
    const response = await fetch(address, { ...init, signal });
    let left = limits.shift() ?? Infinity;
    const cut = new TransformStream({
      transform(chunk, controller) {
        controller.enqueue(chunk.subarray(0, left));
        left -= chunk.length;
        if (left > 0) return;
        connection.abort();
        // What is queued is still read: an error would take it away.
        controller.terminate();
      },
    });
    return new Response(response.body?.pipeThrough(cut) ?? null, response);
  };
  return { fetch: brittleFetch, requests };
}
