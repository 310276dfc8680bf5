import assert from "node:assert/strict";
import { test } from "node:test";

import { apiUrl, client, says } from "../support/sdk.js";

const origin = "http://localhost:3000"; // where most people's pages are served from while they build them

test("a page served from another port may send what the SDK sends", async () => {
  const asked = "content-type,last-event-id,x-api-key";
  const answer = await fetch(`${apiUrl}/threads`, {
    method: "OPTIONS",
    headers: { origin, "access-control-request-method": "POST", "access-control-request-headers": asked },
  });

  assert.ok(answer.ok);
  assert.ok(["*", origin].includes(answer.headers.get("access-control-allow-origin") ?? ""));
  const allowed = (answer.headers.get("access-control-allow-headers") ?? "").toLowerCase().split(/, */);
  for (const header of asked.split(",")) assert.ok(allowed.includes(header) || allowed.includes("*"), header);
});

test("a page served from another port may read the headers by which the SDK finds a run again", async () => {
  const { thread_id } = await client.threads.create();
  const answer = await fetch(`${apiUrl}/threads/${thread_id}/runs/stream`, {
    method: "POST",
    headers: { origin, "content-type": "application/json" },
    body: JSON.stringify({ assistant_id: "chat", input: says("hi") }),
  });
  await answer.text();

  const exposed = (answer.headers.get("access-control-expose-headers") ?? "").toLowerCase().split(/, */);
  for (const header of ["content-location", "location"]) {
    assert.ok(answer.headers.get(header), header);
    assert.ok(exposed.includes(header), header);
  }
});
