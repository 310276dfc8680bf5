import assert from "node:assert/strict";
import { test } from "node:test";

import { apiUrl, client } from "../support/sdk.js";

const loader =
  `<script src="${apiUrl}/ui/chat/entrypoint.js"` +
  ` onload="__LGUI_chat.render(&quot;weather&quot;, &quot;{{shadowRootId}}&quot;)"></script>` +
  `<link rel="stylesheet" href="${apiUrl}/ui/chat/entrypoint.css">`;

test("a component is loaded by the name of its graph", async () => {
  assert.equal(await client["~ui"].getComponent("chat", "weather"), loader);
});

test("a component is loaded by an assistant of its graph", async () => {
  const { assistant_id } = await client.assistants.create({ graphId: "chat" });

  assert.equal(await client["~ui"].getComponent(assistant_id, "weather"), loader);
});

test("the files of a component are served", async () => {
  const script = await fetch(`${apiUrl}/ui/chat/entrypoint.js`);
  const style = await fetch(`${apiUrl}/ui/chat/entrypoint.css`);

  assert.match(script.headers.get("content-type") ?? "", /^text\/javascript/);
  assert.match(await script.text(), /__LGUI_chat/);
  assert.match(style.headers.get("content-type") ?? "", /^text\/css/);
  assert.equal((await fetch(`${apiUrl}/ui/chat/nothing.js`)).status, 404);
});

test("requesting a component of a graph without UI fails", async () => {
  await assert.rejects(client["~ui"].getComponent("approve", "weather"), (/** @type {any} */ error) => {
    assert.equal(error.status, 404);
    assert.match(JSON.parse(error.text).detail, /no UI for 'approve'/);
    return true;
  });
});
