import assert from "node:assert/strict";
import { test } from "node:test";

import { connectedCore, judge, newThread, says, texts } from "../support/copilotkit.js";
import { until } from "../support/until.js";

/** @param {any} core */
function page(core, agentId = "copilot", threadId = newThread()) {
  const agent = core.getAgent(agentId);
  agent.threadId = threadId;
  agent.setMessages([]);
  agent.setState({});
  return agent;
}

test("a page finds the agents, and which of them is meant by default", async () => {
  const core = await connectedCore();

  assert.equal(core.runtimeVersion, "1.75.0");
  assert.ok(["default", "chat", "copilot"].every((name) => core.getAgent(name)));
  assert.equal(core.getAgent("default").description, "Echoes its input.");
  assert.equal((await core.getAgent("chat").getCapabilities()).transport.resumable, true);
  assert.deepEqual(core.threadEndpoints, { list: true, inspect: true, mutations: true, realtimeMetadata: false });
});

test("a tool of the page is called there, and the agent goes on with what it says", async () => {
  const core = await connectedCore({ properties: { user: "Ann" } });
  const called = [];
  core.addTool({
    name: "notify",
    description: "Show a message.",
    handler: async (args) => {
      called.push(args);
      return "shown";
    },
  });
  const agent = page(core);
  agent.addMessage(says("tell me"));
  await core.runAgent({ agent });

  assert.deepEqual(called, [{ title: "a title", message: "a message" }]);
  assert.deepEqual(texts(agent.messages), [
    ["user", "tell me"],
    ["assistant", null],
    ["tool", "shown"],
    ["assistant", "shown, Ann!"],
  ]);
  await judge(2);
});

test("a question to a person outlives a reload", async () => {
  const core = await connectedCore();
  core.addTool({ name: "approve", description: "Ask.", type: "human-in-the-loop", handler: () => new Promise(() => {}) });
  const agent = page(core);
  agent.addMessage(says("may I?"));
  void core.runAgent({ agent });
  await until("it asks", () => agent.messages.at(-1)?.toolCalls?.length && !agent.isRunning);

  const reloaded = await connectedCore();
  const asked = [];
  reloaded.addTool({
    name: "approve",
    description: "Ask.",
    type: "human-in-the-loop",
    handler: async (args) => {
      asked.push(args);
      return "approved";
    },
  });
  const late = page(reloaded, "copilot", agent.threadId);
  await reloaded.connectAgent({ agent: late });
  await until("it goes on", () => late.messages.at(-1)?.content === "approved, nobody!");

  assert.equal(asked.length, 1);
  assert.deepEqual(late.messages.map(({ role }) => role), ["user", "assistant", "tool", "assistant"]);
  await until("all streams have ended", () => !late.isRunning);
  await judge(3);
});

test("what the page knows reaches the agent", async () => {
  const core = await connectedCore({ properties: { user: "Ann", mood: "fine" }, headers: { "x-page": "1" } });
  core.addContext({ description: "The time", value: "noon" });
  const agent = page(core);
  agent.addMessage(says("hello"));
  await core.runAgent({ agent });

  assert.equal(agent.messages.at(-1).content, "I know The time: noon, Ann.");
  assert.deepEqual(agent.state, { mood: "fine" });
  await judge();
});

test("what to say next is suggested", async () => {
  const core = await connectedCore();
  const agent = page(core);
  agent.addMessage(says("hello"));
  await core.runAgent({ agent });
  core.addSuggestionsConfig({ instructions: "Suggest.", providerAgentId: "copilot", available: "always" });
  core.reloadSuggestions("copilot");
  const suggested = await until("something is suggested", () => {
    const { suggestions, isLoading } = core.getSuggestions("copilot");
    return !isLoading && suggestions.length ? suggestions : null;
  });

  assert.deepEqual(suggested.map(({ title, message }) => [title, message]), [["Go on", "Go on, please."]]);
  await judge(2);
});

test("an error of the graph reaches the page", async () => {
  const core = await connectedCore();
  const errors = [];
  core.subscribe({ onError: ({ code, error }) => errors.push([code, error.message]) });
  const agent = page(core, "fails");
  agent.setState({ text: "x" });
  await core.runAgent({ agent }).catch(() => {});

  assert.deepEqual(errors, [["agent_run_error_event", "boom!"]]);
  await judge();
});

test("a page that connects to a chat it has just begun hears of no error", async () => {
  const core = await connectedCore();
  const errors = [];
  core.subscribe({ onError: ({ code }) => errors.push(code) });
  await core.connectAgent({ agent: page(core, "chat") });

  assert.deepEqual(errors, []);
  await judge();
});
