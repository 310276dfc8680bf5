import "./support/quiet.js";

import assert from "node:assert/strict";
import { describe, it } from "node:test";

import { of } from "rxjs";

import { connectThroughAgents, LangGraphAgent } from "../dist/langgraph.js";

/** @typedef {{ id?: string, event: string, data: any }} Chunk */

const THREAD = "6a0f3ee8-52b7-4d0c-9a34-6e2c8a0d7c11";
const METRICS = { income7d: 7.5, apy: 4.2, users: 101, aum: 1e6, points: 1 };
const HUMAN = { type: "human", id: "user-1", content: "How are we doing?" };

class HttpError extends Error {
  /** @param {number} status @param {string} text */
  constructor(status, text) {
    super(`HTTP ${status}: ${text}`);
    this.status = status;
  }
}

/** The part of a LangGraph API's client that the agent uses. */
class FakeClient {
  /** @type {{ run_id: string, status: string }[]} */
  runsOfThread = [];
  /** @type {Chunk[]} */
  chunks = [];
  /** @type {any[]} */
  joined = [];
  /** @type {string[]} */
  cancelled = [];
  /** @type {any} */
  values = { ...METRICS, messages: [HUMAN] };
  /** @type {any[]} */
  tasks = [];
  /** @type {() => any} */
  schemas = () => ({});
  /** Resolves when the stream may end. @type {Promise<unknown>} */
  open = Promise.resolve();
  /** @type {unknown} */
  failure = undefined;
  /** The run after its end. @type {{ run_id: string, status: string } | undefined} */
  ended = undefined;

  threads = {
    getState: async (/** @type {string} */ threadId) => {
      if (threadId !== THREAD) throw new HttpError(404, '{"detail":"Thread not found"}');
      return { values: this.values, next: [], tasks: this.tasks, metadata: {} };
    },
  };

  runs = {
    list: async (/** @type {string} */ threadId, /** @type {any} */ { status }) => {
      if (threadId !== THREAD) throw new HttpError(404, '{"detail":"Thread not found"}');
      return this.runsOfThread.filter((run) => run.status === status);
    },
    joinStream: (/** @type {string} */ _thread, /** @type {string} */ runId, /** @type {any} */ options) => {
      this.joined.push({ runId, ...options });
      return this.stream(options.signal);
    },
    get: async (/** @type {string} */ _thread, /** @type {string} */ runId) =>
      this.ended ?? this.runsOfThread.find((run) => run.run_id === runId),
    cancel: async (/** @type {string} */ _thread, /** @type {string} */ runId) => void this.cancelled.push(runId),
  };

  assistants = { getSchemas: async () => this.schemas() };

  /** @param {AbortSignal} signal */
  async *stream(signal) {
    yield* this.chunks;
    await Promise.race([this.open, new Promise((resolve) => signal.addEventListener("abort", resolve))]);
    signal.throwIfAborted();
    if (this.failure) throw this.failure;
  }
}

/** @param {FakeClient} client @param {any} [config] */
function agentOf(client, config = {}) {
  return new LangGraphAgent({
    deploymentUrl: "http://fake.invalid",
    graphId: "fund",
    threadId: THREAD,
    client: /** @type {any} */ (client),
    ...config,
  });
}

/** Connect with the client's whole pipeline, which verifies every event. @param {LangGraphAgent} agent @param {any} [parameters] */
async function connect(agent, parameters = {}) {
  /** @type {any[]} */
  const events = [];
  await agent.connectAgent(parameters, { onEvent: ({ event }) => void events.push(event) });
  return events;
}

/** Connect without the pipeline, for input that it would not pass on. @param {LangGraphAgent} agent @param {any} input */
function connectRaw(agent, input) {
  /** @type {any[]} */
  const events = [];
  return new Promise((resolve, reject) => {
    agent
      .connect({ runId: "r", messages: [], tools: [], context: [], ...input })
      .subscribe({ next: (event) => void events.push(event), complete: () => resolve(events), error: reject });
  });
}

/** @param {any[]} events */
const types = (events) => events.map(({ type }) => type);

/** The events of a model that streams a text. @param {string} id @param {string[]} texts @param {number} first */
const streamed = (id, texts, first = 1) =>
  texts.map((content, index) => ({
    id: String(first + index),
    event: "events",
    data: {
      event: "on_chat_model_stream",
      run_id: "node-run",
      metadata: { run_id: "run-1", thread_id: THREAD, langgraph_node: "reply", langgraph_checkpoint_ns: "reply:1" },
      data: { chunk: { id, content, type: "AIMessageChunk", response_metadata: {} } },
    },
  }));

const SNAPSHOT_ONLY = ["RUN_STARTED", "STATE_SNAPSHOT", "MESSAGES_SNAPSHOT", "RUN_FINISHED"];

describe("an idle thread", () => {
  it("is shown inside a synthetic run", async () => {
    const agent = agentOf(new FakeClient());
    const events = await connect(agent);
    assert.deepEqual(types(events), SNAPSHOT_ONLY);
    assert.equal(events[0].runId, events[3].runId);
    assert.equal(agent.state.apy, 4.2);
    assert.deepEqual(agent.messages.map(({ id, role }) => [id, role]), [["user-1", "user"]]);
  });

  it("shows its open interrupts", async () => {
    const client = new FakeClient();
    client.tasks = [{ interrupts: [{ id: "i1", value: "Really?" }] }];
    const agent = agentOf(client, { emitInterruptOutcome: true });
    const events = await connect(agent);
    assert.equal(events.at(-1).outcome.interrupts[0].id, "i1");
  });

  it("shows the whole state, whatever the schemas omit", async () => {
    const client = new FakeClient();
    client.schemas = () => ({ config_schema: { properties: {} }, output_schema: { properties: { apy: {} } } });
    const agent = agentOf(client);
    await connect(agent);
    assert.deepEqual(Object.keys(METRICS).filter((name) => !(name in agent.state)), []);
  });
});

describe("schemas", () => {
  for (const [name, schemas] of /** @type {[string, () => any][]} */ ([
    ["that cannot be read", () => Promise.reject(new HttpError(500, "no"))],
    ["without input and output", () => ({ config_schema: { properties: { model: {} } } })],
  ])) {
    it(`${name} filter nothing`, async () => {
      const client = new FakeClient();
      client.schemas = schemas;
      const agent = agentOf(client);
      agent.assistant = /** @type {any} */ ({ assistant_id: "a" });
      const keys = await agent.getSchemaKeys();
      assert.deepEqual([keys?.input, keys?.output], [null, null]);
    });
  }

  it("that are complete are used", async () => {
    const client = new FakeClient();
    client.schemas = () => ({ input_schema: { properties: { q: {} } }, output_schema: { properties: { apy: {} } } });
    const agent = agentOf(client);
    agent.assistant = /** @type {any} */ ({ assistant_id: "a" });
    assert.ok((await agent.getSchemaKeys())?.output?.includes("apy"));
  });
});

describe("an active run", () => {
  it("is attached to: the one that is running rather than one that is queued", async () => {
    const client = new FakeClient();
    client.runsOfThread = [{ run_id: "queued", status: "pending" }, { run_id: "run-1", status: "running" }];
    client.chunks = streamed("ai-1", ["All ", "is well."]);
    const agent = agentOf(client);
    const events = await connect(agent);
    assert.deepEqual(types(events).slice(0, 3), SNAPSHOT_ONLY.slice(0, 3));
    assert.deepEqual([events[0].runId, events.at(-1).runId], ["run-1", "run-1"]);
    const text = events.filter(({ type }) => type === "TEXT_MESSAGE_CONTENT").map(({ delta }) => delta).join("");
    assert.equal(text, "All is well.");
    assert.ok(types(events).includes("RAW"));
    assert.deepEqual(client.joined.map(({ runId, lastEventId, cancelOnDisconnect }) => [runId, lastEventId, cancelOnDisconnect]), [
      ["run-1", undefined, false],
    ]);
  });

  it("that is queued is waited for", async () => {
    const client = new FakeClient();
    client.runsOfThread = [{ run_id: "queued", status: "pending" }];
    assert.equal((await connect(agentOf(client)))[0].runId, "queued");
  });

  it("that ends in the middle of a message ends with everything closed", async () => {
    const client = new FakeClient();
    client.runsOfThread = [{ run_id: "run-1", status: "running" }];
    client.chunks = streamed("ai-1", ["All "]);
    const events = types(await connect(agentOf(client)));
    assert.ok(events.indexOf("TEXT_MESSAGE_END") < events.indexOf("RUN_FINISHED"));
  });

  it("that fails ends with a run error and nothing else", async () => {
    const client = new FakeClient();
    client.runsOfThread = [{ run_id: "run-1", status: "running" }];
    client.chunks = [{ id: "1", event: "error", data: { error: "ValueError", message: "The market is closed." } }];
    const events = await connect(agentOf(client));
    assert.equal(types(events).at(-1), "RUN_ERROR");
    assert.equal(events.at(-1).message, "The market is closed.");
  });

  it("that fails ends with a run error, even if its stream has no error", async () => {
    const client = new FakeClient();
    client.runsOfThread = [{ run_id: "run-1", status: "running" }];
    client.ended = { run_id: "run-1", status: "error" };
    client.tasks = [{ error: "ValueError('The market is closed.')" }];
    const events = await connect(agentOf(client));
    assert.deepEqual([types(events).at(-1), types(events).includes("RUN_FINISHED")], ["RUN_ERROR", false]);
    assert.match(events.at(-1).message, /The market is closed/);
  });

  it("whose stream fails ends with a run error", async () => {
    const client = new FakeClient();
    client.runsOfThread = [{ run_id: "run-1", status: "running" }];
    client.failure = new HttpError(502, "bad gateway");
    assert.equal((await connect(agentOf(client))).at(-1).code, "502");
  });

  it("is not cancelled when the client disconnects", async () => {
    const client = new FakeClient();
    client.runsOfThread = [{ run_id: "run-1", status: "running" }];
    client.open = new Promise(() => {});
    const joined = new Promise((resolve) => {
      const subscription = agentOf(client)
        .connect({ threadId: THREAD, runId: "r", messages: [], tools: [], context: [] })
        .subscribe(({ type }) => {
          if (type === "MESSAGES_SNAPSHOT") setTimeout(() => resolve(subscription.unsubscribe()), 10);
        });
    });
    await joined;
    assert.ok(client.joined[0].signal.aborted);
    assert.deepEqual(client.cancelled, []);
  });

  it("is cancelled when the user stops it", async () => {
    const client = new FakeClient();
    client.runsOfThread = [{ run_id: "run-1", status: "running" }];
    let close = () => {};
    client.open = new Promise((resolve) => void (close = () => resolve(undefined)));
    const agent = agentOf(client);
    await agent.connectAgent({}, {
      onMessagesSnapshotEvent: () => void setTimeout(() => { agent.abortRun(); close(); }, 10),
    });
    assert.deepEqual(client.cancelled, ["run-1"]);
  });
});

describe("resuming", () => {
  const running = () => {
    const client = new FakeClient();
    client.runsOfThread = [{ run_id: "run-1", status: "running" }];
    return client;
  };

  for (const [way, input, config] of /** @type {[string, any, any]} */ ([
    ["a property of the request", { forwardedProps: { lastEventId: "8" } }, {}],
    ["the field of CopilotKit's clients", { lastSeenEventId: 8 }, {}],
    ["the header", {}, { "Last-Event-ID": "8" }],
    ["the header that CopilotKit's runtime forwards", {}, { "x-last-event-id": "8" }],
  ])) {
    it(`takes the last event from ${way}`, async () => {
      const client = running();
      const agent = agentOf(client);
      agent.headers = config;
      const events = await connectRaw(agent, { threadId: THREAD, ...input });
      assert.equal(client.joined[0].lastEventId, "8");
      assert.deepEqual(types(events).slice(0, 2), ["RUN_STARTED", "STATE_SNAPSHOT"], "no snapshot of the messages");
    });
  }

  it("continues after the last event that the agent has read of the same run", async () => {
    const client = running();
    client.chunks = streamed("ai-1", ["All "], 5);
    client.failure = new TypeError("terminated");
    const agent = agentOf(client);
    assert.equal((await connect(agent)).at(-1).code, "UNREACHABLE");
    assert.equal(agent.lastEventId, "5");
    client.failure = undefined;
    client.chunks = streamed("ai-1", ["is well."], 6);
    await connect(agent);
    assert.equal(client.joined[1].lastEventId, "5");
    client.runsOfThread = [{ run_id: "run-2", status: "running" }];
    await connect(agent);
    assert.equal(client.joined[2].lastEventId, undefined, "another run has other events");
  });
});

describe("an invalid thread", () => {
  it("is a run error with the server's status and details", async () => {
    const [error, ...rest] = await connect(agentOf(new FakeClient(), { threadId: "unknown" }));
    assert.deepEqual([error.type, error.code, rest], ["RUN_ERROR", "404", []]);
    assert.match(error.message, /Thread not found/);
  });

  it("is a run error if it is missing", async () => {
    for (const input of [{}, { threadId: "" }, { threadId: null }, { config: { configurable: {} } }]) {
      const [error] = await connectRaw(agentOf(new FakeClient()), input);
      assert.deepEqual([error.type, error.code], ["RUN_ERROR", "422"]);
    }
  });

  it("may be in the config of the run", async () => {
    const events = await connectRaw(agentOf(new FakeClient()), { config: { configurable: { thread_id: THREAD } } });
    assert.deepEqual(types(events), SNAPSHOT_ONLY);
  });
});

describe("the runner of CopilotKit's runtime", () => {
  const runner = () => ({ connect: (/** @type {any} */ request) => of({ replayed: request.threadId }) });

  it("connects through the agent, with the headers of the request", async () => {
    const client = new FakeClient();
    client.runsOfThread = [{ run_id: "run-1", status: "running" }];
    const connected = connectThroughAgents(runner(), /** @type {any} */ ({ fund: agentOf(client) }));
    const request = { threadId: THREAD, agentId: "fund", headers: { "x-last-event-id": "3" } };
    await new Promise((resolve) => void connected.connect(request).subscribe({ complete: () => resolve(undefined) }));
    assert.equal(client.joined[0].lastEventId, "3");
  });

  it("replays the threads of other agents", async () => {
    const connected = connectThroughAgents(runner(), {});
    const event = await new Promise((resolve) => void connected.connect({ threadId: "t", agentId: "x" }).subscribe(resolve));
    assert.deepEqual(event, { replayed: "t" });
  });
});
