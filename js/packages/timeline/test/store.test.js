import assert from "node:assert/strict";
import test from "node:test";

import { normalizeEvent, selectTimeline, Store, ThreadActor } from "../dist/index.js";
import { nestSubgraphs } from "../dist/nested.js";
import { LiveStore } from "../dist/live.js";

const human = { type: "human", id: "h", content: "Hi" };

function storeWith(...events) {
  const store = new Store({ now: () => 1 });
  for (const [name, data] of events) store.applyEvent("t", normalizeEvent(name, data, 1));
  return store;
}

const idsOf = (store) => store.snapshot("t").blocks.map(({ id }) => id);

test("the documented methods build one timeline", () => {
  const store = new Store();
  store.applyValues("t", { messages: [human] });
  store.applyMessage("t", [{ type: "AIMessageChunk", id: "a", content: "Hel" }, {}]);
  store.applyMessage("t", [{ type: "AIMessageChunk", id: "a", content: "lo" }, {}]);
  store.applyUi("t", { type: "ui", id: "u", name: "card", props: {}, metadata: { message_id: "a" } });
  store.applyInterrupt("t", { id: "i", value: { type: "approval" } });
  assert.deepEqual(idsOf(store), ["m:h", "m:a", "u:u", "i:i"]);
  assert.equal(store.snapshot("t").blocks[1].message.content, "Hello");
  assert.equal(store.completeInterrupt("t", "i", { picked: "yes" }), true);
  assert.equal(store.completeInterrupt("t", "i", { picked: "no" }), false);
  const [interrupt] = selectTimeline(store.snapshot("t"), { kinds: ["interrupt"] });
  assert.deepEqual(interrupt.node.props, { picked: "yes" });
  assert.equal(interrupt.node.type, "approval");
  assert.equal(interrupt.node.readOnly, true);
});

test("blocks that have not changed are the same objects", () => {
  const store = storeWith(["values", { messages: [human] }], ["messages", [{ type: "AIMessageChunk", id: "a", content: "x" }, {}]]);
  const before = store.snapshot("t");
  assert.equal(store.snapshot("t"), before);
  store.applyMessage("t", [{ type: "AIMessageChunk", id: "a", content: "y" }, {}]);
  const after = store.snapshot("t");
  assert.equal(after.blocks[0], before.blocks[0]);
  assert.notEqual(after.blocks[1], before.blocks[1]);
  assert.equal(before.blocks[1].message.content, "x");
  assert.equal(selectTimeline(after)[0], selectTimeline(before)[0]);
});

test("a stored thread continues after the last event", () => {
  const events = [
    ["metadata", { run_id: "r" }],
    ["values", { messages: [human] }, "1"],
    ["messages", [{ type: "AIMessageChunk", id: "a", content: "He" }, {}], "2"],
    ["messages", [{ type: "AIMessageChunk", id: "a", content: "llo" }, {}], "3"],
    ["values", { messages: [{ type: "ai", id: "a", content: "Hello" }] }, "4"],
  ];
  const apply = (store, some) => some.forEach(([name, data, id]) => store.applyEvent("t", normalizeEvent(name, data, 1), id));
  const straight = new Store({ now: () => 1 });
  apply(straight, events);
  for (let at = 1; at < events.length; at++) {
    const first = new Store({ now: () => 1 });
    apply(first, events.slice(0, at));
    const second = new Store({ now: () => 1 });
    second.hydrate("t", JSON.parse(JSON.stringify(first.record("t"))));
    apply(second, events);
    assert.deepEqual(second.snapshot("t").blocks, straight.snapshot("t").blocks);
  }
});

test("threads do not see each other's events", () => {
  const store = storeWith(["values", { messages: [human] }]);
  let notified = 0;
  store.subscribe("other", () => notified++);
  store.applyValues("t", { messages: [human], k: 1 });
  assert.deepEqual(store.snapshot("other").blocks, []);
  assert.equal(notified, 0);
});

test("hidden and transient messages and hidden interrupts are not selected", () => {
  const store = new Store({ partialDisplay: "hold", isHidden: (value) => value === "tool" });
  store.applyMessage("t", [{ type: "AIMessageChunk", id: "a", content: "x" }, {}]);
  assert.deepEqual(selectTimeline(store.snapshot("t")), []);
  assert.equal(selectTimeline(store.snapshot("t"), { includeHidden: true }).length, 1);
  store.applyInterrupt("t", { id: "i", value: "tool" });
  assert.deepEqual(selectTimeline(store.snapshot("t"), { kinds: ["interrupt"] }), []);
});

test("an operation that fails does not stop those after it", async () => {
  const failed = [];
  const actor = new ThreadActor({ onError: (threadId, error) => failed.push([threadId, error.message]) });
  const order = [];
  const done = new Promise((resolve) => {
    actor.enqueue("t", () => order.push("sync"));
    actor.enqueue("t", () => {
      actor.enqueue("t", () => order.push("nested"));
      throw new Error("one");
    });
    actor.enqueue("t", async () => {
      await Promise.resolve();
      order.push("async");
      throw new Error("two");
    });
    actor.enqueue("t", () => resolve(order.push("last")));
  });
  await done;
  assert.deepEqual(order, ["sync", "nested", "async", "last"]);
  assert.deepEqual(failed, [["t", "one"], ["t", "two"]]);
});

// -- the server's timeline -------------------------------------------------------------------------------------------

const stamp = { receivedAt: 1, updatedAt: 1, rev: 1, ns: [] };
const text = (id, content, seq) => ({ id: `m:${id}`, kind: "message", seq, ...stamp, message: { type: "ai", id, content }, visible: true, status: "streaming", mode: "delta" });
const asked = (id, seq, fields = {}) => ({ id: `i:${id}`, kind: "interrupt", seq, ...stamp, interruptId: id, value: "ok?", phase: "open", completed: false, ...fields });
const page = (blocks, seq, more = {}) => ({ blocks, interrupts: [], run: null, values: {}, seq, ...more });

test("changes of the server keep the copy up to date", () => {
  const store = new LiveStore();
  store.receivePage("t", page([text("a", "He", 1)], 1));
  store.receiveChanges("t", 2, { changes: [{ change: "append", id: "m:a", text: "llo", rev: 2, updatedAt: 2 }] });
  store.receiveChanges("t", 2, { changes: [{ change: "append", id: "m:a", text: "llo", rev: 2, updatedAt: 2 }] });
  store.receiveChanges("t", 3, {
    changes: [{ change: "insert", after: "m:a", block: asked("i", 3) }, { change: "values", set: { k: [1] } }],
    run: { id: "r", status: "running" },
  });
  store.receiveChanges("t", 4, { changes: [{ change: "values", splice: { k: [1, 0, [2]] } }], ended: { id: "r", status: "success" } });
  const { blocks, values, run, seq, interrupts } = store.snapshot("t");
  assert.equal(blocks[0].message.content, "Hello");
  assert.deepEqual([values, run, seq, interrupts.length], [{ k: [1, 2] }, null, 4, 1]);
});

test("what the user has sent stays at the end, until the server has it", () => {
  const store = new LiveStore();
  store.receivePage("t", page([text("a", "x", 1)], 1));
  store.apply("t", { op: "message.local", message: human });
  store.receiveChanges("t", 2, { changes: [{ change: "insert", after: "m:a", block: text("b", "y", 2) }] });
  assert.deepEqual(idsOf(store), ["m:a", "m:b", "m:h"]);
  store.receivePage("t", page([text("a", "x", 1), text("b", "y", 2)], 3));
  assert.deepEqual(idsOf(store), ["m:a", "m:b", "m:h"]);
  const echo = { ...text("h", "Hi", 4), status: "complete" };
  store.receiveChanges("t", 4, { changes: [{ change: "insert", after: "m:b", block: echo }] });
  assert.deepEqual(store.snapshot("t").blocks.at(-1), echo);
});

test("an answer from another device is marked as such; an answer from here is not", () => {
  const store = new LiveStore();
  store.receivePage("t", page([asked("i", 1), asked("j", 1)], 1));
  store.apply("t", { op: "interrupt.submitting", id: "j", frozenValue: 1 });
  const set = { phase: "completed", completed: true, outcome: "answered", response: "yes", rev: 2, updatedAt: 2 };
  store.receiveChanges("t", 2, { changes: ["i:i", "i:j"].map((id) => ({ change: "update", id, set })) });
  assert.deepEqual(store.snapshot("t").blocks.map(({ outcome }) => outcome), ["answered-elsewhere", "answered"]);
});

test("earlier pages are prepended, and changes that they include are not applied twice", () => {
  const store = new LiveStore();
  store.receivePage("t", page([text("c", "c", 3)], 3, { before: "m:c" }));
  store.receiveChanges("t", 4, { changes: [{ change: "insert", after: "m:x", block: text("y", "y", 4) }] });
  assert.deepEqual(idsOf(store), ["m:c"]);
  assert.equal(store.receiveEarlierPage("t", page([text("b", "b", 2)], 3)), false);
  assert.equal(store.receiveEarlierPage("t", page([text("a", "a", 1), text("b", "bb", 2)], 6, { before: "m:a" })), true);
  store.receiveChanges("t", 5, { changes: [{ change: "append", id: "m:b", text: "b", rev: 2, updatedAt: 2 }] });
  store.receiveChanges("t", 7, { changes: [{ change: "append", id: "m:b", text: "!", rev: 3, updatedAt: 2 }] });
  assert.deepEqual(store.snapshot("t").blocks.map(({ message }) => message.content), ["a", "bb!", "c"]);
  assert.equal(store.snapshot("t").before, "m:a");
});

test("with hold, a message of the server is visible when it is complete or something is asked", () => {
  const store = new LiveStore({ partialDisplay: "hold" });
  const visible = () => selectTimeline(store.snapshot("t")).map(({ id }) => id);
  store.receivePage("t", page([{ ...text("a", "x", 1), runId: "r" }], 1));
  assert.deepEqual(visible(), []);
  store.receiveChanges("t", 2, { changes: [{ change: "insert", after: "m:a", block: asked("i", 2, { runId: "r" }) }] });
  assert.deepEqual(visible(), ["m:a", "i:i"]);
});

test("what a subgraph shows is nested below the message that opened it", () => {
  const call = { name: "ask_expert", args: {}, id: "c", type: "tool_call" };
  const store = new Store();
  const apply = (id, ns, fields = {}) =>
    store.apply("t", { op: "message.full", message: { type: "ai", id, content: id, ...fields }, ns });
  apply("before", ["other:1"]);
  apply("caller", [], { tool_calls: [call] });
  apply("inner", ["tools:1"], { tool_calls: [call] });
  apply("innermost", ["tools:1", "tools:2"]);
  apply("sibling", ["tools:3"]);
  apply("after", []);
  const tree = (items) => items.map(({ block, children }) => [block.message.id, ...tree(children)]);
  const nested = nestSubgraphs(selectTimeline(store.snapshot("t")));
  assert.deepEqual(tree(nested), [["before"], ["caller", ["inner", ["innermost"]], ["sibling"]], ["after"]]);

  apply("sibling", ["tools:3"], { name: "changed" });
  const again = nestSubgraphs(selectTimeline(store.snapshot("t")));
  assert.deepEqual(again.map((item, at) => item === nested[at]), [true, false, true]);
  assert.equal(again[1].children[0], nested[1].children[0]);
});
