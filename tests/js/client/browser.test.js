import assert from "node:assert/strict";
import { test } from "node:test";

import { apiUrl, client, userInput } from "../support/sdk.js";

const origin = "http://localhost:3000"; // the usual origin of a page in development

test("a page served from another port may send the headers of the SDK", async () => {
  const requested = "content-type,last-event-id,x-api-key";
  const response = await fetch(`${apiUrl}/threads`, {
    method: "OPTIONS",
    headers: { origin, "access-control-request-method": "POST", "access-control-request-headers": requested },
  });

  assert.ok(response.ok);
  assert.ok(["*", origin].includes(response.headers.get("access-control-allow-origin") ?? ""));
  const allowed = (response.headers.get("access-control-allow-headers") ?? "").toLowerCase().split(/, */);
  for (const header of requested.split(",")) assert.ok(allowed.includes(header) || allowed.includes("*"), header);
});

test("a page served from another port may read the headers that identify a run", async () => {
  const { thread_id } = await client.threads.create();
  const response = await fetch(`${apiUrl}/threads/${thread_id}/runs/stream`, {
    method: "POST",
    headers: { origin, "content-type": "application/json" },
    body: JSON.stringify({ assistant_id: "chat", input: userInput("hi") }),
  });
  await response.text();

  const exposed = (response.headers.get("access-control-expose-headers") ?? "").toLowerCase().split(/, */);
  for (const header of ["content-location", "location"]) {
    assert.ok(response.headers.get(header), header);
    assert.ok(exposed.includes(header), header);
  }
});
