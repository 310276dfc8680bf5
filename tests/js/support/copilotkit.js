/**
 * CopilotKit's own clients against the server at `SERVER_URL`, over the transport in `TRANSPORT`. What the server sends
 * in their runs is judged besides, because these clients end a stream in silence on an event they do not like.
 */
import { randomUUID } from "node:crypto";

import { CopilotKitCore, ProxiedCopilotRuntimeAgent, ɵcreateThreadStore } from "@copilotkit/core";

import { check } from "../agui/check.js";

process.on("unhandledRejection", () => {}); // they leak one beside each that they report
globalThis.window ??= globalThis; // otherwise it takes this for a server, and does not ask the runtime for anything

export const transport = process.env.TRANSPORT ?? "rest";
export const runtimeUrl = `${process.env.SERVER_URL}/copilotkit${transport === "single" ? "/" : ""}`;

export const newThread = () => `page ${randomUUID()}`;

/** @param {string} content */
export const says = (content) => ({ id: randomUUID(), role: "user", content });

/** @type {Response[]} */
const streams = [];
/** @type {string[]} */
const sent = [];
const fetching = globalThis.fetch;

globalThis.fetch = async (input, init) => {
  sent.push(String(init?.body));
  const response = await fetching(input, init);
  if (response.headers.get("content-type")?.startsWith("text/event-stream")) streams.push(response.clone());
  return response;
};

/** Whether a request with that in its body is on its way. */
export const hasSent = (/** @type {string} */ text) => sent.some((body) => body.includes(text));

/** Throws what is wrong with any of the streams that came since it was asked last, and if there were fewer than that. */
export async function judge(atLeast = 1) {
  if (streams.length < atLeast) throw new Error(`${streams.length} streams came, and not ${atLeast}`);
  for (const stream of streams.splice(0)) {
    const bytes = new Uint8Array(await stream.arrayBuffer());
    const { problems } = await check({ bytes });
    if (problems.length) throw new Error([...problems, new TextDecoder().decode(bytes)].join("\n"));
  }
}

/** @param {string} agentId */
export function agent(agentId, threadId = newThread(), more = {}) {
  return new ProxiedCopilotRuntimeAgent({ runtimeUrl, agentId, threadId, transport, ...more });
}

/** A page's core, connected to the runtime. */
export async function connectedCore(more = {}) {
  const core = new CopilotKitCore({ runtimeUrl, runtimeTransport: transport, ...more });
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
