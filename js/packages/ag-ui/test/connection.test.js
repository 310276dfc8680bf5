import "./support/quiet.js";

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { after, before, describe, it } from "node:test";

import { ThreadwireAgent } from "../dist/index.js";
import { openPage, until } from "./support/page.js";
import { story } from "./support/story.js";
import { entryFrames, FakeThread, fold } from "./support/thread.js";

const down = () => Promise.reject(new TypeError("fetch failed"));
const status = (/** @type {number} */ code, /** @type {any} */ body) => async () => Response.json(body, { status: code });

describe("the status of the connection", () => {
  it("is told from the beginning to the end", async () => {
    const page = openPage(new FakeThread(story));
    assert.equal(page.agent.connection.status.state, "closed");
    await page.agent.runAgent();
    assert.deepEqual(page.states(), ["connecting", "connected", "closed"]);
  });

  it("says how often and why it is tried again", async () => {
    const thread = new FakeThread(story);
    thread.cuts = [900];
    const page = openPage(thread);
    const running = page.agent.runAgent();
    thread.instead = [];
    await until(() => page.states().includes("connected"), "it is connected");
    thread.instead = [down, status(502, {})];
    await running;
    assert.deepEqual(page.statuses.map(({ state, attempt, reason }) => [state, attempt, reason]), [
      ["connecting", undefined, undefined],
      ["connected", undefined, undefined],
      ["reconnecting", 1, "terminated"],
      ["reconnecting", 2, "fetch failed"],
      ["reconnecting", 3, "HTTP 502"],
      ["connected", undefined, undefined],
      ["closed", undefined, undefined],
    ]);
  });

  it("stops telling those who no longer listen", async () => {
    const page = openPage(new FakeThread(story));
    let told = 0;
    page.agent.connection.subscribe(() => void told++)();
    await page.agent.runAgent();
    assert.equal(told, 0);
  });
});

describe("giving up", () => {
  it("comes after the attempts that were granted", async () => {
    const thread = new FakeThread(story);
    thread.cuts = [900];
    thread.instead = [];
    const page = openPage(thread, { attempts: 2 });
    page.agent.connection.subscribe(({ state }) => state === "connected" && (thread.instead = Array(9).fill(down)));
    await assert.rejects(page.agent.runAgent(), /Gave up after 3 attempts: fetch failed/);
    assert.deepEqual(page.agent.connection.status, { state: "error", reason: "Gave up after 3 attempts: fetch failed" });
    assert.equal(thread.requests.length, 3);
    assert.equal(page.agent.isRunning, false);
    assert.equal(page.agent.messages.find(({ id }) => id === "thought")?.content, "Let me see…", "what had come stays");
  });

  it("counts only attempts that brought nothing new", async () => {
    const thread = new FakeThread(story);
    thread.cuts = story.map(() => 600);
    const page = openPage(thread, { attempts: 1 });
    await page.agent.runAgent();
    assert.ok(thread.requests.length > 4);
    assert.deepEqual({ messages: page.agent.messages, state: page.agent.state }, await fold(story.flatMap(({ events }) => events)));
  });

  it("comes at once when the server says no", async () => {
    const thread = new FakeThread(story);
    thread.cuts = [900];
    const page = openPage(thread);
    page.agent.connection.subscribe(({ state }) => state === "connected" && (thread.instead = [status(403, { detail: "Not yours." })]));
    await assert.rejects(page.agent.runAgent(), /Not yours/);
    assert.deepEqual(page.agent.connection.status, { state: "error", reason: "HTTP 403: Not yours." });
    assert.equal(thread.requests.length, 2);
  });

  it("leaves a refused run to the client, which has the answer", async () => {
    for (const code of [409, 503]) {
      const thread = new FakeThread(story);
      thread.instead = [status(code, { detail: "Busy." })];
      const page = openPage(thread);
      await assert.rejects(page.agent.runAgent(), (/** @type {any} */ error) => {
        assert.deepEqual([error.status, error.payload], [code, { detail: "Busy." }]);
        return true;
      });
      assert.equal(thread.requests.length, 1, "a run is never posted twice");
      assert.equal(page.agent.connection.status.state, "error");
    }
  });

  it("does not post a run again that may have arrived", async () => {
    const thread = new FakeThread(story);
    thread.instead = [down];
    const page = openPage(thread);
    await assert.rejects(page.agent.runAgent(), /fetch failed/);
    assert.equal(thread.requests.length, 1);
  });

  it("does not come with the first failure of a connect", async () => {
    const thread = new FakeThread(story);
    thread.instead = [down, status(503, {})];
    const page = openPage(thread);
    await page.agent.connectAgent();
    assert.deepEqual(page.agent.state, { count: 1, name: "Zoë", last: [1, 2] });
  });

  it("takes a page that is no stream for what it is", async () => {
    const thread = new FakeThread(story);
    thread.instead = [async () => new Response("<html>Please log in</html>", { headers: { "content-type": "text/html" } })];
    const page = openPage(thread);
    await assert.rejects(page.agent.runAgent(), /Not an event stream but text\/html/);
  });

  it("does not mistake an event that is none for a bad connection", async () => {
    const thread = new FakeThread(story);
    thread.instead = [async () => thread.stream({ begin: "data: {oops\n\n", entries: [] })];
    const page = openPage(thread);
    await assert.rejects(page.agent.runAgent());
    assert.equal(thread.requests.length, 1);
  });
});

describe("silence", () => {
  it("is taken for a dead connection", async () => {
    const thread = new FakeThread(story);
    const silent = new FakeThread(story.slice(0, 5));
    silent.closes = false;
    thread.instead = [async () => silent.stream({ begin: "", entries: silent.entries })];
    const page = openPage(thread, { silence: 30 });
    await page.agent.runAgent();
    assert.match(page.statuses.find(({ state }) => state === "reconnecting")?.reason, /Nothing was heard for 30 ms/);
    assert.deepEqual(page.agent.state, { count: 1, name: "Zoë", last: [1, 2] });
  });
});

describe("leaving", () => {
  /** A thread whose run goes on for ever. */
  function endless() {
    const thread = new FakeThread(story.slice(0, 6));
    thread.closes = false;
    return thread;
  }

  it("by the abort signal ends the stream and tells the server nothing", async () => {
    const thread = endless();
    const page = openPage(thread);
    const abortController = new AbortController();
    const running = page.agent.runAgent({ abortController });
    await until(() => page.agent.messages.length === 2, "it is under way");
    abortController.abort();
    await running;
    assert.deepEqual([page.agent.isRunning, page.agent.connection.status.state], [false, "closed"]);
    assert.equal(thread.requests.length, 1);
  });

  it("by detaching does too, also while it is waiting to reconnect", async () => {
    const thread = endless();
    thread.cuts = [500];
    const page = openPage(thread, { firstDelay: 60_000, maxDelay: 60_000 });
    const running = page.agent.runAgent();
    await until(() => page.states().includes("reconnecting"), "it is waiting");
    await page.agent.detachActiveRun();
    await running;
    assert.equal(page.agent.connection.status.state, "closed");
    assert.equal(thread.requests.length, 1);
  });

  it("by `abortRun` stops the run on the server, whose stream then ends", async () => {
    const thread = endless();
    const page = openPage(thread);
    /** @type {any} */
    let live;
    const rest = { type: "RUN_FINISHED", threadId: "thread-1", runId: "server-run" };
    thread.instead = [
      async () => new Response(new ReadableStream({ start: (controller) => void (live = controller) }), { headers: { "content-type": "text/event-stream" } }),
      async () => {
        live.enqueue(new TextEncoder().encode(`data: ${JSON.stringify(rest)}\nid: 9\n\n`));
        live.close();
        return Response.json({ stopped: true });
      },
    ];
    const running = page.agent.runAgent();
    await until(() => live, "it is under way");
    live.enqueue(new TextEncoder().encode(entryFrames(story[0])));
    await until(() => page.events.length === 1, "it has begun");
    page.agent.abortRun();
    await running;
    assert.deepEqual(page.events.map(({ type }) => type), ["RUN_STARTED", "RUN_FINISHED"]);
    const { method, path, body } = thread.requests[1] ?? {};
    assert.deepEqual([method, path, body], ["POST", "/ag-ui/a/stop/thread-1", {}]);
  });

  it("by `abortRun` leaves the stream when there is nothing to stop or nobody to ask", async () => {
    for (const answer of [status(200, { stopped: false }), status(500, {}), down]) {
      const thread = endless();
      const page = openPage(thread);
      const running = page.agent.runAgent();
      await until(() => page.agent.messages.length === 2, "it is under way");
      thread.instead = [answer];
      page.agent.abortRun();
      await running;
      assert.equal(page.agent.isRunning, false);
    }
  });
});

describe("stopping", () => {
  it("names the run it is about and says whether there was one", async () => {
    const thread = new FakeThread(story);
    const page = openPage(thread);
    thread.instead = [status(200, { stopped: true }), status(200, { stopped: false }), status(404, { error: "Agent not found" })];
    assert.equal(await page.agent.stop("run-1"), true);
    assert.deepEqual(thread.requests[0]?.body, { runId: "run-1" });
    assert.equal(await page.agent.stop(), false);
    await assert.rejects(page.agent.stop(), /HTTP 404.*Agent not found/);
  });
});

describe("a clone", () => {
  it("has a connection of its own", async () => {
    const thread = new FakeThread(story);
    const page = openPage(thread);
    const clone = page.agent.clone();
    await clone.runAgent();
    assert.ok(clone instanceof ThreadwireAgent && clone.connection !== page.agent.connection);
    assert.deepEqual(page.states(), []);
    assert.deepEqual([clone.state, page.agent.state], [{ count: 1, name: "Zoë", last: [1, 2] }, {}]);
  });
});

describe("over real sockets", () => {
  const thread = new FakeThread(story);
  const server = createServer(async (request, response) => {
    const body = await new Response(/** @type {any} */ (request)).text();
    const answer = await thread.fetch(request.url ?? "/", { method: request.method ?? "GET", headers: /** @type {any} */ (request.headers), ...(body && { body }) });
    response.writeHead(answer.status, Object.fromEntries(answer.headers));
    try {
      for await (const chunk of answer.body ?? []) await new Promise((written) => response.write(chunk, written));
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

  it("a run is whole after its socket was destroyed, again and again", async () => {
    thread.cuts = [500, 700, 900];
    const agent = new ThreadwireAgent({ url, threadId: "thread-1", retry: { firstDelay: 1 } });
    await agent.runAgent();
    assert.deepEqual({ messages: agent.messages, state: agent.state }, await fold(story.flatMap(({ events }) => events)));
    assert.equal(thread.requests.filter(({ path }) => path === "/ag-ui/a").length, 1);
    assert.ok(thread.requests.length >= 3);
  });
});
