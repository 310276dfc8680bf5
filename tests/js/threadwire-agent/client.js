/**
 * A client with a `ThreadwireAgent`, built by `make test`, on its own thread.
 */
import { randomUUID } from "node:crypto";

import { ThreadwireAgent } from "../../../js/packages/ag-ui/dist/index.js";

const url = process.env["SERVER_URL"];
if (!url) throw new Error("SERVER_URL is not set: run these tests with pytest tests/e2e/test_threadwire_agent.py");

/** @param {{ threadId?: string, fetch?: any }} [options] */
export function openClient({ threadId = randomUUID(), fetch } = {}) {
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
    /** The last message of the assistant. */
    reply: () => String(agent.messages.findLast(({ role }) => role === "assistant")?.content ?? ""),
    /** @param {string} text @param {number} [delay] seconds before each word of the reply */
    send(text, delay = 0) {
      agent.addMessage({ id: randomUUID(), role: "user", content: text });
      agent.setState({ ...agent.state, delay });
      return agent.runAgent();
    },
  };
}

/**
 * Start a run through the API, without an agent.
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
 * A network that drops the first connections, each after the next number of bytes in `limits`.
 *
 * @param {number[]} limits
 */
export function unreliableNetwork(limits) {
  /** @type {{ method: string, path: string, cursor: string | null }[]} */
  const requests = [];
  const unreliableFetch = async (/** @type {string} */ address, /** @type {RequestInit} */ init) => {
    const headers = new Headers(init.headers);
    requests.push({ method: init.method ?? "GET", path: new URL(address).pathname, cursor: headers.get("last-event-id") });
    const connection = new AbortController();
    const signal = init.signal ? AbortSignal.any([init.signal, connection.signal]) : connection.signal;
    const response = await fetch(address, { ...init, signal });
    let remaining = limits.shift() ?? Infinity;
    const cut = new TransformStream({
      transform(chunk, controller) {
        controller.enqueue(chunk.subarray(0, remaining));
        remaining -= chunk.length;
        if (remaining > 0) return;
        connection.abort();
        // Unlike an error, this does not discard the queue.
        controller.terminate();
      },
    });
    return new Response(response.body?.pipeThrough(cut) ?? null, response);
  };
  return { fetch: unreliableFetch, requests };
}
