import "./support/quiet.js";

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { after, before, describe, it } from "node:test";

import { ThreadwireAgent } from "../dist/index.js";
import { openAgent, until } from "./support/agent.js";
import { sampleRun } from "./support/sample-run.js";
import { entryFrames, FakeThread, fold } from "./support/thread.js";

const down = () => Promise.reject(new TypeError("fetch failed"));
const status = (/** @type {number} */ code, /** @type {any} */ body) => async () => Response.json(body, { status: code });

describe("the status of the connection", () => {
  it("is reported from start to end", async () => {
    const client = openAgent(new FakeThread(sampleRun));
    assert.equal(client.agent.connection.status.state, "closed");
    await client.agent.runAgent();
    assert.deepEqual(client.states(), ["connecting", "connected", "closed"]);
  });

  it("includes the number of failed attempts and the reason", async () => {
    const thread = new FakeThread(sampleRun);
    thread.cuts = [900];
    const client = openAgent(thread);
    const running = client.agent.runAgent();
    thread.overrides = [];
    await until(() => client.states().includes("connected"), "the agent is connected");
    thread.overrides = [down, status(502, {})];
    await running;
    assert.deepEqual(client.statuses.map(({ state, attempt, reason }) => [state, attempt, reason]), [
      ["connecting", undefined, undefined],
      ["connected", undefined, undefined],
      ["reconnecting", 1, "terminated"],
      ["reconnecting", 2, "fetch failed"],
      ["reconnecting", 3, "HTTP 502"],
      ["connected", undefined, undefined],
      ["closed", undefined, undefined],
    ]);
  });

  it("is not reported after unsubscribing", async () => {
    const client = openAgent(new FakeThread(sampleRun));
    let calls = 0;
    client.agent.connection.subscribe(() => void calls++)();
    await client.agent.runAgent();
    assert.equal(calls, 0);
  });
});

describe("giving up", () => {
  it("happens after the allowed number of attempts", async () => {
    const thread = new FakeThread(sampleRun);
    thread.cuts = [900];
    thread.overrides = [];
    const client = openAgent(thread, { attempts: 2 });
    client.agent.connection.subscribe(({ state }) => state === "connected" && (thread.overrides = Array(9).fill(down)));
    await assert.rejects(client.agent.runAgent(), /Gave up after 3 attempts: fetch failed/);
    assert.deepEqual(client.agent.connection.status, { state: "error", reason: "Gave up after 3 attempts: fetch failed" });
    assert.equal(thread.requests.length, 3);
    assert.equal(client.agent.isRunning, false);
    assert.equal(client.agent.messages.find(({ id }) => id === "thought")?.content, "Let me see…", "what was received stays");
  });

  it("counts only attempts without progress", async () => {
    const thread = new FakeThread(sampleRun);
    thread.cuts = sampleRun.map(() => 600);
    const client = openAgent(thread, { attempts: 1 });
    await client.agent.runAgent();
    assert.ok(thread.requests.length > 4);
    assert.deepEqual({ messages: client.agent.messages, state: client.agent.state }, await fold(sampleRun.flatMap(({ events }) => events)));
  });

  it("happens immediately when the server rejects the request", async () => {
    const thread = new FakeThread(sampleRun);
    thread.cuts = [900];
    const client = openAgent(thread);
    client.agent.connection.subscribe(({ state }) => state === "connected" && (thread.overrides = [status(403, { detail: "Not yours." })]));
    await assert.rejects(client.agent.runAgent(), /Not yours/);
    assert.deepEqual(client.agent.connection.status, { state: "error", reason: "HTTP 403: Not yours." });
    assert.equal(thread.requests.length, 2);
  });

  it("passes the error response of a rejected run to the client", async () => {
    for (const code of [409, 503]) {
      const thread = new FakeThread(sampleRun);
      thread.overrides = [status(code, { detail: "Busy." })];
      const client = openAgent(thread);
      await assert.rejects(client.agent.runAgent(), (/** @type {any} */ error) => {
        assert.deepEqual([error.status, error.payload], [code, { detail: "Busy." }]);
        return true;
      });
      assert.equal(thread.requests.length, 1, "a run is never posted twice");
      assert.equal(client.agent.connection.status.state, "error");
    }
  });

  it("happens immediately when a run's POST fails, because the server may have accepted it", async () => {
    const thread = new FakeThread(sampleRun);
    thread.overrides = [down];
    const client = openAgent(thread);
    await assert.rejects(client.agent.runAgent(), /fetch failed/);
    assert.equal(thread.requests.length, 1);
  });

  it("does not happen at the first failure of a connect", async () => {
    const thread = new FakeThread(sampleRun);
    thread.overrides = [down, status(503, {})];
    const client = openAgent(thread);
    await client.agent.connectAgent();
    assert.deepEqual(client.agent.state, { count: 1, name: "Zoë", last: [1, 2] });
  });

  it("happens immediately when the response is not an event stream", async () => {
    const thread = new FakeThread(sampleRun);
    thread.overrides = [async () => new Response("<html>Please log in</html>", { headers: { "content-type": "text/html" } })];
    const client = openAgent(thread);
    await assert.rejects(client.agent.runAgent(), /Expected an event stream, got text\/html/);
  });

  it("happens immediately at an invalid event", async () => {
    const thread = new FakeThread(sampleRun);
    thread.overrides = [async () => thread.stream({ preamble: "data: {oops\n\n", entries: [] })];
    const client = openAgent(thread);
    await assert.rejects(client.agent.runAgent());
    assert.equal(thread.requests.length, 1);
  });
});

describe("an idle connection", () => {
  it("counts as lost after the timeout", async () => {
    const thread = new FakeThread(sampleRun);
    const idle = new FakeThread(sampleRun.slice(0, 5));
    idle.closes = false;
    thread.overrides = [async () => idle.stream({ preamble: "", entries: idle.entries })];
    const client = openAgent(thread, { idleTimeout: 30 });
    await client.agent.runAgent();
    assert.match(client.statuses.find(({ state }) => state === "reconnecting")?.reason, /No data received for 30 ms/);
    assert.deepEqual(client.agent.state, { count: 1, name: "Zoë", last: [1, 2] });
  });
});

describe("ending a stream early", () => {
  /** A thread whose run never ends. */
  function endlessThread() {
    const thread = new FakeThread(sampleRun.slice(0, 6));
    thread.closes = false;
    return thread;
  }

  it("with the abort signal sends nothing to the server", async () => {
    const thread = endlessThread();
    const client = openAgent(thread);
    const abortController = new AbortController();
    const running = client.agent.runAgent({ abortController });
    await until(() => client.agent.messages.length === 2, "the run has started");
    abortController.abort();
    await running;
    assert.deepEqual([client.agent.isRunning, client.agent.connection.status.state], [false, "closed"]);
    assert.equal(thread.requests.length, 1);
  });

  it("by detaching works while the agent waits to reconnect", async () => {
    const thread = endlessThread();
    thread.cuts = [500];
    const client = openAgent(thread, { firstDelay: 60_000, maxDelay: 60_000 });
    const running = client.agent.runAgent();
    await until(() => client.states().includes("reconnecting"), "the agent is waiting");
    await client.agent.detachActiveRun();
    await running;
    assert.equal(client.agent.connection.status.state, "closed");
    assert.equal(thread.requests.length, 1);
  });

  it("with `abortRun` stops the run on the server, which ends the stream", async () => {
    const thread = endlessThread();
    const client = openAgent(thread);
    /** @type {any} */
    let controller;
    const end = { type: "RUN_FINISHED", threadId: "thread-1", runId: "server-run" };
    thread.overrides = [
      async () => new Response(new ReadableStream({ start: (opened) => void (controller = opened) }), { headers: { "content-type": "text/event-stream" } }),
      async () => {
        controller.enqueue(new TextEncoder().encode(`data: ${JSON.stringify(end)}\nid: 9\n\n`));
        controller.close();
        return Response.json({ stopped: true });
      },
    ];
    const running = client.agent.runAgent();
    await until(() => controller, "the stream is open");
    controller.enqueue(new TextEncoder().encode(entryFrames(sampleRun[0])));
    await until(() => client.events.length === 1, "the first event has arrived");
    client.agent.abortRun();
    await running;
    assert.deepEqual(client.events.map(({ type }) => type), ["RUN_STARTED", "RUN_FINISHED"]);
    const { method, path, body } = thread.requests[1] ?? {};
    assert.deepEqual([method, path, body], ["POST", "/ag-ui/a/stop/thread-1", {}]);
  });

  it("with `abortRun` closes the stream when there is no run to stop or the request fails", async () => {
    for (const respond of [status(200, { stopped: false }), status(500, {}), down]) {
      const thread = endlessThread();
      const client = openAgent(thread);
      const running = client.agent.runAgent();
      await until(() => client.agent.messages.length === 2, "the run has started");
      thread.overrides = [respond];
      client.agent.abortRun();
      await running;
      assert.equal(client.agent.isRunning, false);
    }
  });
});

describe("stopping", () => {
  it("sends the run id and returns whether there was a run to stop", async () => {
    const thread = new FakeThread(sampleRun);
    const client = openAgent(thread);
    thread.overrides = [status(200, { stopped: true }), status(200, { stopped: false }), status(404, { error: "Agent not found" })];
    assert.equal(await client.agent.stop("run-1"), true);
    assert.deepEqual(thread.requests[0]?.body, { runId: "run-1" });
    assert.equal(await client.agent.stop(), false);
    await assert.rejects(client.agent.stop(), /HTTP 404.*Agent not found/);
  });
});

describe("a clone", () => {
  it("has its own connection", async () => {
    const thread = new FakeThread(sampleRun);
    const client = openAgent(thread);
    const clone = client.agent.clone();
    await clone.runAgent();
    assert.ok(clone instanceof ThreadwireAgent && clone.connection !== client.agent.connection);
    assert.deepEqual(client.states(), []);
    assert.deepEqual([clone.state, client.agent.state], [{ count: 1, name: "Zoë", last: [1, 2] }, {}]);
  });
});

describe("over real sockets", () => {
  const thread = new FakeThread(sampleRun);
  const server = createServer(async (request, response) => {
    const body = await new Response(/** @type {any} */ (request)).text();
    const streamed = await thread.fetch(request.url ?? "/", { method: request.method ?? "GET", headers: /** @type {any} */ (request.headers), ...(body && { body }) });
    response.writeHead(streamed.status, Object.fromEntries(streamed.headers));
    try {
      for await (const chunk of streamed.body ?? []) await new Promise((written) => response.write(chunk, written));
      response.end();
    } catch {
      response.destroy();
    }
  });
  let url = "";
  before(async () => {
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    url = `http://127.0.0.1:${/** @type {any} */ (server.address()).port}/ag-ui/a`;
  });
  after(() => server.close());

  it("a run is complete after its socket was destroyed several times", async () => {
    thread.cuts = [500, 700, 900];
    const agent = new ThreadwireAgent({ url, threadId: "thread-1", retry: { firstDelay: 1 } });
    await agent.runAgent();
    assert.deepEqual({ messages: agent.messages, state: agent.state }, await fold(sampleRun.flatMap(({ events }) => events)));
    assert.equal(thread.requests.filter(({ path }) => path === "/ag-ui/a").length, 1);
    assert.ok(thread.requests.length >= 3);
  });
});
