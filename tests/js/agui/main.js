/**
 * Checks AG-UI streams.
 *
 *     node agui/main.js < stream.sse                     one stream
 *     node agui/main.js http://host/ag-ui/agent BODY     the response to a POST of that JSON
 *     node agui/main.js --lines                          many: JSON lines in, JSON lines out (tests/e2e/agui_checker.py)
 */
import { createInterface } from "node:readline";
import { buffer } from "node:stream/consumers";

import { check } from "./check.js";

// 0.0.59 leaks a second rejection for each that it reports.
process.on("unhandledRejection", () => {});

const [target, body] = process.argv.slice(2);
if (target === "--lines") await checkLines();
else await checkOne(target ? await post(target, body) : await buffer(process.stdin));

async function checkLines() {
  for await (const line of createInterface({ input: process.stdin })) {
    const { frames, ...request } = JSON.parse(line);
    process.stdout.write(`${JSON.stringify(await check({ ...request, bytes: Buffer.from(frames, "base64") }))}\n`);
  }
}

/** @param {Uint8Array} bytes */
async function checkOne(bytes) {
  const { problems, messages, state, interrupts } = await check({ bytes });
  console.log(JSON.stringify({ problems, messages, state, interrupts }, null, 2));
  process.exitCode = problems.length === 0 ? 0 : 1;
}

/**
 * @param {string} url
 * @param {string} json
 */
async function post(url, json) {
  const headers = { "content-type": "application/json", accept: "text/event-stream" };
  const response = await fetch(url, { method: "POST", headers, body: json });
  if (!response.ok) throw new Error(`HTTP ${response.status}: ${await response.text()}`);
  return new Uint8Array(await response.arrayBuffer());
}
