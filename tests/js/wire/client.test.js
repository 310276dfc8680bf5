import assert from "node:assert/strict";
import { describe, test } from "node:test";

import { JSDOM } from "jsdom";

import { longReply, numberedWords } from "../support/replies.js";
import { apiUrl, client, userInput } from "../support/sdk.js";
import { until } from "../support/until.js";

globalThis.WebSocket ??= new JSDOM("", { url: apiUrl }).window.WebSocket; // Node has one since version 22

/**
 * @template T
 * @param {AsyncIterable<T>} stream
 */
async function all(stream) {
  const parts = [];
  for await (const part of stream) parts.push(part);
  return parts;
}

for (const transport of ["sse", "websocket"]) {
  describe(`ThreadStream over ${transport}`, () => {
    /** @param {import("node:test").TestContext} t @param {string} assistantId */
    const open = (t, assistantId) => {
      const thread = client.threads.stream({ assistantId, transport });
      t.after(() => thread.close());
      return thread;
    };

    test("messages grow, and the output is the last state", async (t) => {
      const thread = open(t, "slow_chat");
      const messages = thread.messages;
      await thread.run.start({ input: userInput("hi") });
      const texts = [];
      for await (const message of messages) {
        const words = await all(message.text);
        assert.ok(words.length > 20);
        texts.push(words.join(""));
      }
      assert.deepEqual(texts, [longReply]);
      const output = await thread.output;
      assert.equal(output.messages.at(-1).text, longReply);
    });

    test("tool calls and their results", async (t) => {
      const thread = open(t, "tool_chat");
      const calls = all(thread.toolCalls);
      await thread.run.start({ input: userInput("what is 1 + 2?") });
      const [call] = await calls;
      assert.equal(call.name, "add");
      const output = await thread.output;
      assert.equal(output.messages.at(-1).text, "The sum is 3");
      assert.deepEqual(output.messages[1].tool_calls[0].args, { a: 1, b: 2 });
    });

    test("subgraphs with their messages", async (t) => {
      const thread = open(t, "slow_nested_chat"); // the SDK may miss messages of a subgraph that ends at once
      const subgraphs = thread.subgraphs;
      await thread.run.start({ input: userInput("hi") });
      const texts = [];
      for await (const subgraph of subgraphs) {
        for await (const message of subgraph.messages) texts.push(await message.text);
      }
      assert.deepEqual(texts, [numberedWords("w", 30)]);
    });

    test("an interrupt is answered", async (t) => {
      const thread = open(t, "approve");
      await thread.run.start({ input: userInput("go") });
      const [{ interruptId, namespace, payload }] = await until("it is interrupted", () => thread.interrupts.length && thread.interrupts);
      assert.deepEqual(payload, { question: "May I?" });
      await until("the run has ended", () => thread.interrupted);
      await thread.input.respond({ interrupt_id: interruptId, namespace, response: "yes" });
      await until("the answer is in the state", async () => (await thread.state.get({ namespace: [] })).values.answer === "yes");
    });

    test("state, checkpoints, forks and the tree", async (t) => {
      const thread = open(t, "chat");
      await thread.run.start({ input: userInput("hi") });
      await thread.output;
      const { values } = await thread.state.get({ namespace: [] });
      assert.equal(values.messages.length, 2);
      const { checkpoints } = await thread.state.listCheckpoints({});
      assert.deepEqual(checkpoints.map((/** @type {any} */ each) => each.step), [1, 0, -1]);
      const forked = await thread.state.fork({ checkpoint_id: checkpoints.at(-1).id, input: userInput("again") });
      await client.runs.join(forked.thread_id, forked.run_id);
      const after = await thread.state.get({ namespace: [], keys: ["messages"] });
      assert.deepEqual(after.values.messages.map((/** @type {any} */ each) => each.type), ["human", "ai"]);
      await thread.input.inject({ namespace: [], message: { role: "user", content: "by the way" } });
      assert.equal((await thread.state.get({ namespace: [] })).values.messages.length, 3);
      const { tree } = await thread.agent.getTree({ run_id: forked.run_id });
      assert.equal(tree.status, "completed");
    });

    test("a command that fails throws its code", async (t) => {
      const thread = open(t, "nope");
      await assert.rejects(thread.run.start({ input: {} }), (/** @type {any} */ error) => {
        assert.equal(error.code, "unknown_error");
        assert.match(error.message, /422: Invalid assistant: 'nope'/);
        return true;
      });
    });
  });
}
