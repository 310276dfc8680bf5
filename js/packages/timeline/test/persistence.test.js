import "fake-indexeddb/auto";

import assert from "node:assert/strict";
import test from "node:test";

import { indexedDbStorage, localStorageStorage, memoryStorage, Persistence, Store } from "../dist/index.js";
import { LiveStore } from "../dist/live.js";
import { text } from "./support/server.js";

/** A localStorage with room for so many characters. */
function area(room = Infinity) {
  const stored = new Map();
  return {
    stored,
    get length() {
      return stored.size;
    },
    key: (at) => [...stored.keys()][at] ?? null,
    getItem: (key) => stored.get(key) ?? null,
    removeItem: (key) => stored.delete(key),
    setItem(key, text) {
      const used = [...stored].reduce((sum, [other, value]) => sum + (other === key ? 0 : value.length), 0);
      if (used + text.length > room) throw new DOMException("It is full", "QuotaExceededError");
      stored.set(key, text);
    },
  };
}

let databases = 0;
const STORAGES = {
  memory: () => memoryStorage(),
  localStorage: () => localStorageStorage(area()),
  IndexedDB: () => indexedDbStorage(`test-${databases++}`),
};

function recordOf(threadId, texts, lastUpdatedAt = 1) {
  const store = new Store({ now: () => lastUpdatedAt });
  store.applyValues(threadId, { messages: texts.map((content, at) => ({ type: "ai", id: `m${at}`, content })), k: 1 });
  return store.record(threadId);
}

for (const [name, create] of Object.entries(STORAGES)) {
  test(`${name}: a thread that is saved can be loaded, by its scope only`, async () => {
    const storage = create();
    const persistence = new Persistence(storage, { scope: "a" });
    await persistence.saveThread("t", recordOf("t", ["one", "two"]));
    const changed = recordOf("t", ["one!"]);
    await persistence.saveThread("t", changed);
    assert.deepEqual(await new Persistence(storage, { scope: "a" }).loadThread("t"), changed);
    assert.equal(await new Persistence(storage, { scope: "b" }).loadThread("t"), undefined);
    const { schemaVersion, threads } = await persistence.loadAll();
    assert.deepEqual([schemaVersion, Object.keys(threads)], [2, ["t"]]);
    await persistence.clear();
    assert.deepEqual((await persistence.loadAll()).threads, {});
  });

  test(`${name}: a record that cannot be read is dropped, and the others stay`, async () => {
    const storage = create();
    const persistence = new Persistence(storage);
    await persistence.saveThread("good", recordOf("good", ["x"]));
    const broken = { ...recordOf("bad", []), order: ["m:gone"] };
    await storage.commit("", { header: broken, changed: [], removed: [] });
    assert.equal(await persistence.loadThread("bad"), undefined);
    assert.deepEqual(Object.keys((await persistence.loadAll()).threads), ["good"]);
  });

  test(`${name}: a record of a newer version is neither read nor overwritten`, async () => {
    const storage = create();
    const { blocks, ...header } = recordOf("t", []);
    await storage.commit("", { header: { ...header, schemaVersion: 3, order: [] }, changed: [], removed: [] });
    const persistence = new Persistence(storage);
    assert.equal(await persistence.loadThread("t"), undefined);
    await persistence.saveThread("t", recordOf("t", ["old"]));
    assert.equal((await storage.load("", "t")).schemaVersion, 3);
  });
}

test("text is stored soon, and everything else immediately", async (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  const persistence = new Persistence(memoryStorage());
  void persistence.saveThread("t", recordOf("t", ["x"]), false);
  assert.equal(await persistence.loadThread("t"), undefined);
  context.mock.timers.tick(250);
  await persistence.flush();
  assert.ok(await persistence.loadThread("t"));
});

test("a thread of version 1 is upgraded, and then removed from the old place", async () => {
  const old = area();
  const messages = [{ type: "human", id: "h", content: "Hi" }, { type: "ai", id: "a", content: "Hello" }];
  const ui = [{ type: "ui", id: "u", name: "card", props: {}, metadata: { message_id: "h" } }];
  const threads = { t: { messages, ui, lastUpdatedAt: 5 }, other: { messages, ui: [], lastUpdatedAt: 5 } };
  old.setItem("langgraph-stream-cache", JSON.stringify({ schemaVersion: 1, threads }));
  const storage = memoryStorage();
  const record = await new Persistence(storage, { oldStorage: old }).loadThread("t");
  assert.deepEqual(record.blocks.map(({ id, status }) => [id, status]), [["m:h", "complete"], ["u:u", undefined], ["m:a", "complete"]]);
  assert.deepEqual(Object.keys(JSON.parse(old.getItem("langgraph-stream-cache")).threads), ["other"]);
  assert.deepEqual((await new Persistence(storage).loadThread("t")).blocks, record.blocks);
});

test("a full storage loses its oldest threads, not the present one", async () => {
  const problems = [];
  const full = area(3500);
  const persistence = new Persistence(localStorageStorage(full), { onProblem: (error) => problems.push(error) });
  for (const at of [1, 2, 3, 4, 5]) await persistence.saveThread(`t${at}`, recordOf(`t${at}`, ["x".repeat(300)], at));
  const { threads } = await persistence.loadAll();
  assert.ok("t5" in threads && !("t1" in threads));
  assert.deepEqual(problems, []);
});

test("a storage that fails is reported once and never throws", async () => {
  const problems = [];
  const refused = () => Promise.reject(new DOMException("No", "SecurityError"));
  const storage = { load: refused, commit: refused, remove: refused, list: refused, clear: refused };
  const persistence = new Persistence(storage, { onProblem: ({ name }) => problems.push(name) });
  assert.equal(await persistence.loadThread("t"), undefined);
  await persistence.saveThread("t", recordOf("t", ["x"]));
  await persistence.remove("t");
  assert.deepEqual((await persistence.loadAll()).threads, {});
  assert.deepEqual(problems, ["SecurityError"]);
});

test("a very large text is not stored, and comes back with the server's block", async () => {
  const storage = memoryStorage();
  const large = "x".repeat(300_000);
  const block = { ...text("a", large), message: { type: "ai", id: "a", content: [{ type: "image", data: large }, "short"] } };
  const page = { blocks: [block], interrupts: [], run: null, values: {}, seq: 1 };
  const store = new LiveStore();
  store.receivePage("t", page);
  await new Persistence(storage).saveThread("t", store.record("t"));

  const record = await new Persistence(storage).loadThread("t");
  assert.deepEqual(record.blocks[0].message.content, [{ type: "image", data: "" }, "short"]);
  const next = new LiveStore();
  next.hydrate("t", record);
  next.receivePage("t", page);
  assert.deepEqual(next.snapshot("t").blocks, [block]);
});
