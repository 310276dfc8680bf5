/** A thread on a page: what it shows, what it sends, and how it survives a lost connection. */
import assert from "node:assert/strict";
import { afterEach, test } from "node:test";

import { memoryStorage } from "../dist/index.js";
import { TimelineClient } from "../dist/live.js";
import { asked, FakeServer, inserted, text, until } from "./support/server.js";

const closers = [];
afterEach(() => closers.splice(0).forEach((close) => close()));

function open(server, { threadId = "t", ...options } = {}) {
  const client = new TimelineClient({ fetch: server.fetch, assistantId: "agent", storage: false, ...options });
  const session = client.thread(threadId);
  closers.push(session.subscribe(() => undefined));
  const shown = () => session.getSnapshot().blocks.map((block) => block.message?.content ?? block.id);
  return { client, session, shown, state: () => session.getSnapshot().connection.state };
}

function serverWith(...blocks) {
  const server = new FakeServer();
  server.thread("t");
  blocks.forEach((block, at) => server.change("t", [inserted(block, blocks[at - 1]?.id ?? null)]));
  return server;
}

test("it shows the page, then what changes", async () => {
  const server = serverWith(text("a", "one"));
  const { shown, state, session } = open(server);
  await until(() => state() === "live");
  assert.deepEqual(shown(), ["one"]);
  server.change("t", [inserted(text("b", "tw", { status: "streaming" }), "m:a")], { run: { id: "r", status: "running" } });
  server.change("t", [{ change: "append", id: "m:b", text: "o", rev: 2, updatedAt: 2 }]);
  await until(() => shown().at(-1) === "two");
  assert.equal(session.getSnapshot().isLoading, true);
});

test("custom data reaches the application once, also after a lost connection", async () => {
  const server = serverWith(text("a", "one"));
  const received = [];
  const { state, session } = open(server, { onCustomEvent: (value, threadId) => received.push([value, threadId]) });
  await until(() => state() === "live");
  server.change("t", [], { custom: [{ step: 1 }, "two"] });
  await until(() => received.length === 2);
  server.cut("t");
  await until(() => state() === "reconnecting");
  server.change("t", [], { custom: [3] });
  await until(() => received.length === 3);
  assert.deepEqual(received, [[{ step: 1 }, "t"], ["two", "t"], [3, "t"]]);
  assert.equal(session.getSnapshot().seq, 3);
});

test("after a lost connection it continues after the last event", async () => {
  const server = serverWith(text("a", "one"));
  const { shown, state, session } = open(server);
  await until(() => state() === "live");
  server.cut("t");
  await until(() => state() === "reconnecting");
  server.change("t", [inserted(text("b", "two"), "m:a")]);
  await until(() => state() === "live");
  await until(() => shown().length === 2);
  assert.equal(session.getSnapshot().connection.repair, "resumed");
  assert.equal(server.requests.filter((each) => each.endsWith("/timeline/stream")).length, 2);
});

test("a position that the server has forgotten is repaired with a page", async () => {
  const server = serverWith(text("a", "one"), text("b", "two"));
  const { shown, state, session } = open(server);
  await until(() => state() === "live");
  server.cut("t");
  server.threads.delete("t");
  server.thread("t");
  server.change("t", [inserted(text("n", "new"))]);
  await until(() => shown().join() === "new");
  assert.equal(session.getSnapshot().connection.repair, "reloaded");
});

test("a silent connection counts as lost", async () => {
  const server = serverWith(text("a", "one"));
  const { state } = open(server, { idleTimeout: 30 });
  await until(() => state() === "live");
  await until(() => state() === "reconnecting");
});

test("a request that is never answered counts as lost", async () => {
  const server = serverWith(text("a", "one"));
  const { fetch } = server;
  let unanswered = 0;
  server.fetch = (url, init) => {
    if (!String(url).includes("/timeline/stream") || unanswered > 0) return fetch(url, init);
    unanswered++;
    return new Promise((_, reject) => init.signal.addEventListener("abort", () => reject(init.signal.reason)));
  };
  const { shown, state } = open(server, { idleTimeout: 30 });
  await until(() => state() === "reconnecting");
  await until(() => shown().join() === "one");
});

test("a page that arrives late does not undo what the stream has shown", async () => {
  const server = serverWith(text("a", "one"), asked("i"));
  const { fetch } = server;
  let deliver;
  server.fetch = async (url, init) => {
    const response = await fetch(url, init);
    if (url.endsWith("/timeline?limit=100")) await new Promise((resolve) => (deliver = resolve));
    return response;
  };
  const { session, shown, state } = open(server);
  await until(() => state() === "live");
  server.failures.push({ path: "/interrupts/i", status: 500 });
  const completing = assert.rejects(session.completeInterrupt("i")); // which loads the page
  await until(() => deliver);
  server.change("t", [inserted(text("b", "two"), "i:i")]);
  await until(() => shown().at(-1) === "two");
  deliver();
  await completing;
  assert.deepEqual(shown(), ["one", "i:i", "two"]);
  assert.equal(session.getSnapshot().blocks[1].completed, false);
  server.change("t", [inserted(text("c", "three"), "m:b")]);
  await until(() => shown().at(-1) === "three");
});

test("a database that never opens does not delay the page for long", async () => {
  const storage = { ...memoryStorage(), load: () => new Promise(() => undefined) };
  const { shown } = open(serverWith(text("a", "one")), { storage });
  await until(() => shown().join() === "one");
});

test("the cache is shown before the server has answered", async () => {
  const storage = memoryStorage();
  const server = serverWith(text("a", "one"));
  const first = open(server, { storage });
  await until(() => first.state() === "live");
  await first.client.persistence.flush();
  const offline = new FakeServer();
  offline.fetch = () => new Promise(() => undefined);
  const second = open(offline, { storage });
  await until(() => second.shown().join() === "one");
  assert.equal(second.state(), "syncing");
});

test("a message is shown before the server has it, and fails if the server rejects the run", async () => {
  const server = serverWith();
  const { session, shown } = open(server);
  server.failures.push({ path: "/runs", status: 503, data: { detail: "Busy" } });
  const sending = session.submit({ messages: "Hi" });
  assert.deepEqual(shown(), ["Hi"]);
  await assert.rejects(sending, /Busy/);
  const [failed] = session.getSnapshot().blocks;
  assert.equal(failed.status, "failed");
  await session.submit({ messages: [failed.message] });
  assert.equal(session.getSnapshot().blocks.length, 1);
  assert.equal(session.getSnapshot().blocks[0].status, "pending");
  assert.equal(server.thread("t").posted[0].assistant_id, "agent");
});

test("a thread that does not exist is created by the first run, and then followed", async () => {
  const server = new FakeServer();
  const { session, state } = open(server, { threadId: "new" });
  await until(() => state() === "idle");
  assert.equal(await session.submit({ messages: "Hi" }), "run-1");
  await until(() => state() === "live");
});

test("a thread that is created while its timeline is requested is followed", async () => {
  const server = new FakeServer();
  let answer;
  const { fetch } = server;
  let isFirst = true;
  server.fetch = async (url, init) => {
    const response = await fetch(url, init);
    if (isFirst && String(url).includes("/threads/new") && response.status === 404) {
      isFirst = false;
      await new Promise((resolve) => (answer = resolve)); // the 404 arrives after the thread was created
    }
    return response;
  };
  const { session, state } = open(server, { threadId: "new" });
  await until(() => !isFirst);
  await session.submit({ messages: "Hi" });
  answer();
  await until(() => state() === "live");
  assert.equal(session.getSnapshot().blocks.length, 1);
});

test("an answer freezes the widget at once, and everywhere when the server has it", async () => {
  const server = serverWith(asked("i"));
  const [one, two] = [open(server), open(server)];
  await until(() => one.state() === "live" && two.state() === "live");
  const answering = one.session.respond("yes", { interruptId: "i", frozenValue: { picked: "yes" } });
  assert.equal(one.session.getSnapshot().blocks[0].phase, "submitting");
  assert.deepEqual(await answering, { accepted: true, runId: "run-9" });
  const block = (of) => of.session.getSnapshot().blocks[0];
  await until(() => block(two).completed);
  assert.deepEqual([block(one).outcome, block(two).outcome], ["answered", "answered-elsewhere"]);
  assert.deepEqual(block(one).frozenValue, { picked: "yes" });
  assert.deepEqual(server.thread("t").posted, [{ frozenValue: { picked: "yes" }, resume: true, response: "yes" }]);
});

test("an answer that came second shows the first one's", async () => {
  const server = serverWith(asked("i"));
  const { session, state } = open(server);
  await until(() => state() === "live");
  const interrupt = asked("i", { response: "theirs", completed: true, phase: "completed" });
  server.failures.push({ path: "/interrupts/i", status: 409, data: { detail: "This interrupt was already answered", interrupt } });
  assert.deepEqual(await session.respond("mine", { interruptId: "i" }), { accepted: false });
  const [block] = session.getSnapshot().blocks;
  assert.deepEqual([block.outcome, block.response], ["answered-elsewhere", "theirs"]);
});

test("an answer that the server rejects can be given again", async () => {
  const server = serverWith(asked("i"));
  const { session, state } = open(server);
  await until(() => state() === "live");
  server.failures.push({ path: "/interrupts/i", status: 500, data: { detail: "Broken" } });
  await assert.rejects(session.respond("yes", { interruptId: "i" }), /Broken/);
  assert.deepEqual([session.getSnapshot().blocks[0].phase, session.getSnapshot().blocks[0].error], ["open", "Broken"]);
  assert.equal((await session.respond("yes", { interruptId: "i" })).accepted, true);
});

test("earlier blocks are loaded page by page", async () => {
  const server = serverWith(...["a", "b", "c", "d", "e"].map((id) => text(id, id)));
  const { session, shown, state } = open(server, { pageSize: 2 });
  await until(() => state() === "live");
  assert.deepEqual(shown(), ["d", "e"]);
  assert.equal(await session.loadEarlier(), true);
  assert.equal(await session.loadEarlier(), false);
  assert.deepEqual(shown(), ["a", "b", "c", "d", "e"]);
});

test("a rejected connection is an error, and is not tried again", async () => {
  const server = serverWith(text("a", "one"));
  server.failures.push({ path: "/timeline", status: 401, data: { detail: "Log in" } });
  const { session, state } = open(server);
  await until(() => state() === "error");
  assert.match(String(session.getSnapshot().error), /Log in/);
});

test("a thread that nothing shows any more is closed", async () => {
  const server = serverWith(text("a", "one"));
  const { state } = open(server);
  await until(() => state() === "live");
  closers.splice(0).forEach((close) => close());
  await until(() => server.thread("t").streams.size === 0);
});

test("without following, there is a connection only while a run is active", async () => {
  const server = serverWith(text("a", "one"));
  const { session, shown, state } = open(server, { follow: false });
  const streams = () => server.requests.filter((each) => each.endsWith("/timeline/stream")).length;
  await until(() => state() === "live");
  await until(() => server.openStreams("t") === 0);
  server.change("t", [inserted(text("b", "by another device"), "m:a")]);

  server.onRun = () => server.change("t", [], { run: { id: "run-1", status: "running" } });
  await session.submit({});
  await until(() => server.openStreams("t") === 1);
  assert.deepEqual(shown(), ["one", "by another device"]);
  server.change("t", [inserted(text("c", "answer"), "m:b")]);
  server.change("t", [], { run: null, ended: { id: "run-1", status: "success" } });
  await until(() => server.openStreams("t") === 0);
  assert.deepEqual(shown(), ["one", "by another device", "answer"]);
  assert.equal(streams(), 2);
  assert.equal(state(), "live");
});
