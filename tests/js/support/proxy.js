/**
 * A proxy in front of the server that can cut connections, hold requests back and reject them. Playwright's
 * `setOffline` does not cut a stream that is open.
 */
import { createServer, request } from "node:http";

import { serverUrl } from "./api.js";

/** @param {string} [target] */
export async function openProxy(target = serverUrl) {
  /** @type {Set<{ path: string, end: () => void, stall: () => void }>} */
  const streams = new Set();
  /** @type {{ pattern: RegExp, status?: number, release?: Promise<void> }[]} */
  const rules = [];
  const server = createServer(async (incoming, outgoing) => {
    const path = incoming.url ?? "";
    const rule = rules.find(({ pattern }) => pattern.test(`${incoming.method} ${path}`));
    if (rule?.status) {
      rules.splice(rules.indexOf(rule), 1);
      outgoing.writeHead(rule.status, { "content-type": "application/json" }).end('{"detail": "Rejected by the proxy"}');
      return;
    }
    await rule?.release;
    const { hostname, port } = new URL(target);
    const forwarded = request({ hostname, port, path, method: incoming.method, headers: incoming.headers }, (response) => {
      outgoing.writeHead(response.statusCode ?? 502, response.headers);
      response.pipe(outgoing);
      if (!response.headers["content-type"]?.startsWith("text/event-stream")) return;
      const stream = { path, end: () => outgoing.destroy(), stall: () => response.unpipe(outgoing) };
      streams.add(stream);
      outgoing.on("close", () => (streams.delete(stream), response.destroy()));
    });
    forwarded.on("error", () => outgoing.destroy());
    incoming.pipe(forwarded);
    outgoing.on("close", () => forwarded.destroy());
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(undefined)));
  const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
  return {
    url: `http://127.0.0.1:${port}`,
    /** The paths of the streams that are open. */
    streams: () => [...streams].map(({ path }) => path),
    cut: () => streams.forEach((stream) => stream.end()),
    /** Send nothing more on the open streams, and leave them open. */
    stall: () => streams.forEach((stream) => stream.stall()),
    /** Reject the next request that matches. @param {RegExp} pattern @param {number} status */
    reject: (pattern, status) => void rules.push({ pattern, status }),
    /** Hold back requests that match, until the returned function is called. @param {RegExp} pattern */
    hold(pattern) {
      let open = () => {};
      const rule = { pattern, release: /** @type {Promise<void>} */ (new Promise((resolve) => (open = () => resolve(undefined)))) };
      rules.push(rule);
      return () => (rules.splice(rules.indexOf(rule), 1), open());
    },
    close: () => (server.closeAllConnections(), server.close()),
  };
}
