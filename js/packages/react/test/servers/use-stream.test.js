/** `useStream` against a running server: SERVER_URL. Started by tests/sidebyside, for the stock server and for ours. */
import "../dom.js";

import assert from "node:assert/strict";
import { afterEach, test } from "node:test";

import { memoryStorage } from "@threadwire/timeline";
import { act, cleanup, renderHook, waitFor } from "@testing-library/react";

import { useStream } from "../../dist/index.js";

const apiUrl = process.env["SERVER_URL"];
assert.ok(apiUrl, "SERVER_URL is not set");

afterEach(cleanup);

const eventually = (check) => waitFor(check, { timeout: 20_000 });

/** A page, with the storage of its browser. A new page of the same browser has the same storage. */
function openPage(assistantId, { threadId = null, storage = memoryStorage(), ...options } = {}) {
  const { result, unmount } = renderHook(() => useStream({ apiUrl, assistantId, threadId, storage, ...options }));
  return { stream: () => result.current, unmount };
}

const texts = (stream) => stream.values.blocks.flatMap((block) => (block.kind === "message" ? [block.message.content] : []));
const interrupts = (stream) => stream.values.blocks.filter(({ kind }) => kind === "interrupt");
const idle = (stream) => () => assert.equal(stream().isLoading, false);

test("a conversation: messages stream in, each once, in their order", async () => {
  const page = openPage("chat");
  await act(() => page.stream().submit({ messages: "Hi" }));
  await eventually(() => assert.equal(page.stream().values.blocks.at(-1).message.type, "ai"));
  await eventually(idle(page.stream));
  const [human, ai] = page.stream().values.blocks;
  assert.deepEqual([human.message.content, human.status, ai.status], ["Hi", "complete", "complete"]);
  await act(() => page.stream().submit({ messages: "And you?" }));
  await eventually(() => assert.equal(page.stream().values.blocks.length, 4));
  await eventually(idle(page.stream));
  assert.deepEqual(texts(page.stream())[2], "And you?");
});

test("an interrupt: it is answered, frozen, and stays after a reload", async () => {
  const storage = memoryStorage();
  const page = openPage("approve", { storage });
  await act(() => page.stream().submit({ topic: "x" }));
  await eventually(() => assert.equal(page.stream().interrupt?.phase, "open"));
  await eventually(idle(page.stream));
  const { interruptId } = page.stream().interrupt;
  let responded;
  await act(async () => void (responded = await page.stream().respond("yes", { interruptId, frozenValue: { picked: "yes" } })));
  assert.equal(responded.accepted, true);
  await eventually(() => assert.equal(interrupts(page.stream())[0].completed, true));
  await eventually(() => assert.equal(interrupts(page.stream())[0].response, "yes"));
  await eventually(idle(page.stream));
  assert.equal(interrupts(page.stream()).length, 1);
  const { threadId, values } = page.stream();
  await new Promise((resolve) => setTimeout(resolve, 50)); // the last write to the storage
  page.unmount();

  const reloaded = openPage("approve", { threadId, storage, partialDisplay: "append", pageSize: 99 });
  await eventually(() => assert.equal(reloaded.stream().connection.state, "live"));
  const [block] = interrupts(reloaded.stream());
  assert.deepEqual([block.completed, block.frozenValue, block.response], [true, { picked: "yes" }, "yes"]);
  assert.deepEqual(reloaded.stream().values.state, values.state);
});

test("parallel interrupts: all are shown, and answered in one run", async () => {
  const page = openPage("approve_many");
  await act(() => page.stream().submit({ answers: [] }));
  await eventually(() => assert.ok(page.stream().interrupts.length > 1));
  await eventually(idle(page.stream));
  const open = page.stream().interrupts.map(({ interruptId }) => interruptId);
  await act(() => page.stream().respondAll(Object.fromEntries(open.map((id) => [id, "yes"]))));
  await eventually(() => assert.ok(open.every((id) => interrupts(page.stream()).find((block) => block.interruptId === id).completed)));
  await eventually(idle(page.stream));
});

test("a run that fails says so, and leaves the page usable", async () => {
  const page = openPage("fails");
  await act(() => page.stream().submit({ text: 1 }));
  await eventually(() => assert.equal(page.stream().ended?.status, "error"));
  await eventually(idle(page.stream));
});

test("a fork hides the branch that it leaves, and a fork from the end of the branch shows it again", async () => {
  const page = openPage("chat");
  const send = async (action, reply) => {
    await act(action);
    await eventually(() => assert.equal(texts(page.stream()).at(-1), reply));
    await eventually(idle(page.stream));
  };
  await send(() => page.stream().submit({ messages: "one" }), "You said: one");
  const [first] = await page.stream().history(1);
  await send(() => page.stream().submit({ messages: "two" }), "You said: two");
  const [second] = await page.stream().history(1);
  const [human, reply] = page.stream().values.blocks.slice(2);
  // Two messages: the ids of the agent's replies count messages.
  const forked = ["three", "or four", "You said: or four"];
  await send(() => page.stream().fork(first.checkpoint.checkpoint_id, { messages: forked.slice(0, 2) }), forked[2]);
  assert.deepEqual(texts(page.stream()).slice(2), forked);
  const branchId = second.checkpoint.checkpoint_id;
  assert.deepEqual(
    page.stream().branches.map(({ id, blocks }) => [id, blocks.map((block) => block.id)]),
    [[branchId, [human.id, reply.id]]],
  );
  await send(() => page.stream().fork(branchId), "You said: two");
  assert.deepEqual(texts(page.stream()).slice(2), ["two", "You said: two"]);
  assert.deepEqual(texts({ values: page.stream().branches[0] }), forked);
  assert.equal(page.stream().branches.length, 1);
});
