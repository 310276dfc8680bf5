/**
 * CopilotKit's own clients against the server at `SERVER_URL`, over the transport in `TRANSPORT`. The streams of their
 * runs are also checked, because these clients end a stream silently at an event that they do not accept.
 */
import { randomUUID } from "node:crypto";

import { CopilotKitCore, ProxiedCopilotRuntimeAgent, ɵcreateThreadStore } from "@copilotkit/core";

import { check } from "../agui/check.js";

process.on("unhandledRejection", () => {}); // the clients leak one for each that they report
globalThis.window ??= globalThis; // otherwise CopilotKit assumes a server and sends no requests to the runtime

export const transport = process.env.TRANSPORT ?? "rest";
export const runtimeUrl = `${process.env.SERVER_URL}/copilotkit${transport === "single" ? "/" : ""}`;

export const newThread = () => `page ${randomUUID()}`;

/** @param {string} content */
export const userMessage = (content) => ({ id: randomUUID(), role: "user", content });

/** @type {Response[]} */
const streams = [];
/** @type {string[]} */
const sent = [];
const originalFetch = globalThis.fetch;

globalThis.fetch = async (input, init) => {
  sent.push(String(init?.body));
  const response = await originalFetch(input, init);
  if (response.headers.get("content-type")?.startsWith("text/event-stream")) streams.push(response.clone());
  return response;
};

/** Whether a request with this text in its body was sent. */
export const hasSent = (/** @type {string} */ text) => sent.some((body) => body.includes(text));

/** Check the streams received since the last call. Throws if one is invalid, or if there are fewer than `minimum`. */
export async function checkStreams(minimum = 1) {
  if (streams.length < minimum) throw new Error(`Expected at least ${minimum} streams, got ${streams.length}`);
  for (const stream of streams.splice(0)) {
    const bytes = new Uint8Array(await stream.arrayBuffer());
    const { problems } = await check({ bytes });
    if (problems.length) throw new Error([...problems, new TextDecoder().decode(bytes)].join("\n"));
  }
}

/** @param {string} agentId */
export function createAgent(agentId, threadId = newThread(), options = {}) {
  return new ProxiedCopilotRuntimeAgent({ runtimeUrl, agentId, threadId, transport, ...options });
}

/** A `CopilotKitCore` that is connected to the runtime. */
export async function connectedCore(options = {}) {
  const core = new CopilotKitCore({ runtimeUrl, runtimeTransport: transport, ...options });
  const connected = new Promise((resolve, reject) => {
    core.subscribe({
      onRuntimeConnectionStatusChanged: ({ status }) => status === "connected" && resolve(core),
      onError: ({ error, code }) => reject(new Error(`${code}: ${error.message}`)),
    });
    if (core.runtimeConnectionStatus === "connected") resolve(core);
  });
  core.connect();
  return connected;
}

/** @param {{ role: string, content?: any }[]} messages */
export const texts = (messages) => messages.map(({ role, content }) => [role, content ?? null]);

export { ɵcreateThreadStore as createThreadStore };
