/**
 * The server is killed in mid-answer by whoever runs this, when it reads KILL on standard output, and started again.
 */
import assert from "node:assert/strict";
import { it } from "node:test";

import { until } from "../support/until.js";
import { openPage, runInBackground } from "./page.js";

const KILL = "KILL THE SERVER";
const TEXT = Array.from({ length: 40 }, (_, number) => `w${number}`).join(" ");

it("an answer is whole after the server was killed in the middle of it, on the page that asked and on one that follows", async () => {
  const page = openPage();
  const watching = openPage({ threadId: page.threadId });
  await runInBackground(page.threadId, { messages: [{ type: "human", content: "hi" }] });
  const unfollow = watching.agent.follow();
  await until("the thread is shown", () => watching.answer() === "You said: hi");
  await page.agent.connectAgent();
  const running = page.say(TEXT, 0.05);
  await until("it has begun to answer", () => [page, watching].every((each) => each.answer().includes("w3")));
  process.stdout.write(`${KILL}\n`);
  await running;
  await until("it is shown elsewhere", () => !watching.agent.isRunning && watching.answer().endsWith("w39"));
  for (const { agent, states } of [page, watching]) {
    assert.deepEqual(agent.messages.map(({ content }) => content), ["hi", "You said: hi", TEXT, `You said: ${TEXT}`]);
    assert.ok(states.includes("reconnecting"));
  }
  unfollow();
});
