import assert from "node:assert/strict";
import { test } from "node:test";

import { JSDOM } from "jsdom";

import { apiUrl, client, sdk, userInput } from "../support/sdk.js";

globalThis.WebSocket ??= new JSDOM("", { url: apiUrl }).window.WebSocket; // Node has one since version 22
const { Client } = await import(sdk);

const transport = process.env["TRANSPORT"];
const channels = ["values", "updates", "messages", "tools", "custom", "lifecycle", "input", "checkpoints", "tasks"];

/** @param {any} event */
const isRootEnd = ({ method, params }) =>
  method === "lifecycle" && !params.namespace.length && ["completed", "interrupted"].includes(params.data.event);

/**
 * The events of a run that starts once `ThreadStream` has subscribed, as `ThreadStream` returns them. If the connection
 * is cut before, subscribing fails over a WebSocket.
 *
 * @param {string} url
 * @param {string} assistant
 */
async function received(url, assistant) {
  const { thread_id: threadId } = await client.threads.create();
  const thread = new Client({ apiUrl: url }).threads.stream(threadId, { assistantId: assistant, transport });
  const subscription = await thread.subscribe({ channels });
  await client.runs.create(threadId, assistant, { input: userInput("what is 1 + 2?") });
  const events = await untilRootEnd(subscription);
  await thread.close();
  return { threadId, events };
}

/** The same from the beginning, without a cut. @param {string} threadId */
async function replayed(threadId) {
  const thread = client.threads.stream(threadId, { assistantId: "any" });
  const events = await untilRootEnd(await thread.subscribe({ channels }));
  await thread.close();
  return events;
}

/** @param {AsyncIterable<any>} subscription */
async function untilRootEnd(subscription) {
  const events = [];
  for await (const event of subscription) {
    events.push(event);
    if (isRootEnd(event)) break;
  }
  return events;
}

// The server is behind a relay, which cuts connections below `/cut`: see tests/e2e/relay.py.
for (const assistant of ["tool_chat", "nested_chat", "approve"]) {
  test(`a stream cut at any event and resumed equals an uninterrupted one: ${assistant}`, async () => {
    const { threadId, events: whole } = await received(apiUrl, assistant);
    assert.ok(isRootEnd(whole.at(-1)));
    assert.deepEqual(whole, await replayed(threadId));
    const resumed = await Promise.all(whole.map((_, at) => received(`${apiUrl}/cut/${assistant}/${at}`, assistant)));
    for (const [at, { threadId, events }] of resumed.entries()) {
      assert.deepEqual(events, await replayed(threadId), `cut after ${at} events`);
    }
  });
}
