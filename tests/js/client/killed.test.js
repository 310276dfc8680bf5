import assert from "node:assert/strict";
import { test } from "node:test";

import { longReply } from "../support/replies.js";
import { actOnce, client, collect, userInput } from "../support/sdk.js";

const KILL = "KILL THE SERVER\n"; // read by tests/e2e/test_js_clients.py, which restarts the server on the same data

test("a stream survives a restart of the server and delivers every event once", async () => {
  const { thread_id } = await client.threads.create();
  const stream = client.runs.stream(thread_id, "slow_chat", {
    input: userInput("hi"),
    streamMode: ["messages-tuple", "values"],
    streamResumable: true,
  });

  let tokens = 0;
  const parts = await actOnce(
    stream,
    (part) => part.event === "messages" && ++tokens === 10,
    () => process.stdout.write(KILL),
  );

  const [{ run_id, status }] = await client.runs.list(thread_id);
  assert.equal(status, "success");
  assert.deepEqual(parts, await collect(client.runs.joinStream(thread_id, run_id, { lastEventId: "-1" })));
  const attempts = parts.filter((part) => part.event === "metadata").map((part) => part.data.attempt);
  assert.deepEqual(attempts, [1, 2]);
  assert.equal(parts.at(-1)?.data.messages.at(-1).content, longReply);
});
