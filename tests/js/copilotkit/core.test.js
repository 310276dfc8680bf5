import assert from "node:assert/strict";
import { test } from "node:test";

import { checkStreams, connectedCore, newThread, texts, userMessage } from "../support/copilotkit.js";
import { until } from "../support/until.js";

/** @param {any} core */
function openAgent(core, agentId = "copilot", threadId = newThread()) {
  const agent = core.getAgent(agentId);
  agent.threadId = threadId;
  agent.setMessages([]);
  agent.setState({});
  return agent;
}

test("a page gets the agents and the default agent", async () => {
  const core = await connectedCore();

  assert.equal(core.runtimeVersion, "1.75.0");
  assert.ok(["default", "chat", "copilot"].every((name) => core.getAgent(name)));
  assert.equal(core.getAgent("default").description, "Echoes its input.");
  assert.equal((await core.getAgent("chat").getCapabilities()).transport.resumable, true);
  assert.deepEqual(core.threadEndpoints, { list: true, inspect: true, mutations: true, realtimeMetadata: false });
});

test("a frontend tool is called on the page, and the agent continues with its result", async () => {
  const core = await connectedCore({ properties: { user: "Ann" } });
  const calls = [];
  core.addTool({
    name: "notify",
    description: "Show a message.",
    handler: async (args) => {
      calls.push(args);
      return "shown";
    },
  });
  const agent = openAgent(core);
  agent.addMessage(userMessage("tell me"));
  await core.runAgent({ agent });

  assert.deepEqual(calls, [{ title: "a title", message: "a message" }]);
  assert.deepEqual(texts(agent.messages), [
    ["user", "tell me"],
    ["assistant", null],
    ["tool", "shown"],
    ["assistant", "shown, Ann!"],
  ]);
  await checkStreams(2);
});

test("a human-in-the-loop request survives a reload", async () => {
  const core = await connectedCore();
  core.addTool({ name: "approve", description: "Ask.", type: "human-in-the-loop", handler: () => new Promise(() => {}) });
  const agent = openAgent(core);
  agent.addMessage(userMessage("may I?"));
  void core.runAgent({ agent });
  await until("the tool is called", () => agent.messages.at(-1)?.toolCalls?.length && !agent.isRunning);

  const reloaded = await connectedCore();
  const calls = [];
  reloaded.addTool({
    name: "approve",
    description: "Ask.",
    type: "human-in-the-loop",
    handler: async (args) => {
      calls.push(args);
      return "approved";
    },
  });
  const reloadedAgent = openAgent(reloaded, "copilot", agent.threadId);
  await reloaded.connectAgent({ agent: reloadedAgent });
  await until("the agent has continued", () => reloadedAgent.messages.at(-1)?.content === "approved, nobody!");

  assert.equal(calls.length, 1);
  assert.deepEqual(reloadedAgent.messages.map(({ role }) => role), ["user", "assistant", "tool", "assistant"]);
  await until("all streams have ended", () => !reloadedAgent.isRunning);
  await checkStreams(3);
});

test("the agent gets the context of the page", async () => {
  const core = await connectedCore({ properties: { user: "Ann", mood: "fine" }, headers: { "x-page": "1" } });
  core.addContext({ description: "The time", value: "noon" });
  const agent = openAgent(core);
  agent.addMessage(userMessage("hello"));
  await core.runAgent({ agent });

  assert.equal(agent.messages.at(-1).content, "I know The time: noon, Ann.");
  assert.deepEqual(agent.state, { mood: "fine" });
  await checkStreams();
});

test("suggestions are generated", async () => {
  const core = await connectedCore();
  const agent = openAgent(core);
  agent.addMessage(userMessage("hello"));
  await core.runAgent({ agent });
  core.addSuggestionsConfig({ instructions: "Suggest.", providerAgentId: "copilot", available: "always" });
  core.reloadSuggestions("copilot");
  const loaded = await until("suggestions have arrived", () => {
    const { suggestions, isLoading } = core.getSuggestions("copilot");
    return !isLoading && suggestions.length ? suggestions : null;
  });

  assert.deepEqual(loaded.map(({ title, message }) => [title, message]), [["Go on", "Go on, please."]]);
  await checkStreams(2);
});

test("an error of the graph is reported to the page", async () => {
  const core = await connectedCore();
  const errors = [];
  core.subscribe({ onError: ({ code, error }) => errors.push([code, error.message]) });
  const agent = openAgent(core, "fails");
  agent.setState({ text: "x" });
  await core.runAgent({ agent }).catch(() => {});

  assert.deepEqual(errors, [["agent_run_error_event", "boom!"]]);
  await checkStreams();
});

test("connecting to a new chat reports no error", async () => {
  const core = await connectedCore();
  const errors = [];
  core.subscribe({ onError: ({ code }) => errors.push(code) });
  await core.connectAgent({ agent: openAgent(core, "chat") });

  assert.deepEqual(errors, []);
  await checkStreams();
});
