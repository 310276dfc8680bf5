/** Previews on the chat page of a server that authenticates, with the page's own client code. Like an `<img>` in a
 * browser, they are loaded without headers. */
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import { serverUrl } from "../support/api.js";

const PAGE = fileURLToPath(new URL("../../../examples/chat-page/", import.meta.url));
const PNG = new Uint8Array([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0x30]);

async function clientCode() {
  const { build } = createRequire(`${PAGE}package.json`)("esbuild");
  const contents = 'export * from "./session"; export * from "./api"; export * from "./uploads";';
  const stdin = { contents, resolveDir: `${PAGE}src/stand-in`, loader: "ts" };
  const { outputFiles } = await build({ stdin, bundle: true, format: "esm", write: false, logLevel: "warning" });
  return import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].contents).toString("base64")}`);
}

const url = `${serverUrl}/chatkit/agent`;

/** Only requests to the ChatKit endpoint have a credential. */
const withCredential = (address, init) =>
  fetch(address, address === url ? { ...init, headers: { ...init.headers, authorization: "Bearer ada" } } : init);

const preview = async (items) => {
  const [{ attachments }] = items.filter(({ type }) => type === "user_message").slice(-1);
  const response = await fetch(attachments[0].preview_url);
  return [response.status, new Uint8Array(await response.arrayBuffer())];
};

test("previews are displayed while a response is streamed and after a reload", async () => {
  const { Api, Session, upload } = await clientCode();
  const api = new Api({ url, fetch: withCredential, uploadStrategy: { type: "two_phase" } });
  const session = new Session(api, {}, () => {});
  for (const name of ["first.png", "second.png"]) {
    const attachment = await upload(api, {}, new File([PNG], name, { type: "image/png" }));
    const content = [{ type: "input_text", text: "Look" }];
    assert.ok(await session.send({ content, attachments: [attachment.id], quoted_text: null, inference_options: {} }));
    assert.equal(session.shown.get().error, null);
    assert.deepEqual(await preview(session.shown.get().items), [200, PNG]);
  }
  const reloaded = new Session(api, {}, () => {});
  await reloaded.open(session.shown.get().threadId);
  assert.deepEqual(await preview(reloaded.shown.get().items), [200, PNG]);
});
