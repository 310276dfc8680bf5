/**
 * The test runner kills and restarts the server in the middle of a reply, when it reads KILL on standard output.
 */
import assert from "node:assert/strict";
import { it } from "node:test";

import { until } from "../support/until.js";
import { openClient, runInBackground } from "./client.js";

const KILL = "KILL THE SERVER";
const TEXT = Array.from({ length: 40 }, (_, number) => `w${number}`).join(" ");

it("a reply is complete after the server was killed in the middle of it, for the client that started it and for a follower", async () => {
  const client = openClient();
  const follower = openClient({ threadId: client.threadId });
  await runInBackground(client.threadId, { messages: [{ type: "human", content: "hi" }] });
  const unfollow = follower.agent.follow();
  await until("the thread is loaded", () => follower.reply() === "You said: hi");
  await client.agent.connectAgent();
  const running = client.send(TEXT, 0.05);
  await until("the reply has started", () => [client, follower].every((each) => each.reply().includes("w3")));
  process.stdout.write(`${KILL}\n`);
  await running;
  await until("the follower has the complete reply", () => !follower.agent.isRunning && follower.reply().endsWith("w39"));
  for (const { agent, states } of [client, follower]) {
    assert.deepEqual(agent.messages.map(({ content }) => content), ["hi", "You said: hi", TEXT, `You said: ${TEXT}`]);
    assert.ok(states.includes("reconnecting"));
  }
  unfollow();
});
