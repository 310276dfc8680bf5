import "./dom.js";

import assert from "node:assert/strict";
import { afterEach, test } from "node:test";

import { act, cleanup, render, renderHook, waitFor } from "@testing-library/react";
import { createElement, StrictMode } from "react";

import { asked, FakeServer, inserted, text } from "../../timeline/test/support/server.js";
import { Timeline, useInterruptSubmission, useStream } from "../dist/index.js";

afterEach(cleanup);

let servers = 0;

/** A server at an address of its own: components share the client of an address. */
function serverWith(threads = {}) {
  const server = new FakeServer();
  server.url = `http://server-${servers++}`;
  for (const [id, blocks] of Object.entries(threads)) {
    server.thread(id);
    blocks.forEach((block, at) => server.change(id, [inserted(block, blocks[at - 1]?.id ?? null)]));
  }
  return server;
}

const optionsFor = (server, threadId) => ({ apiUrl: server.url, fetch: server.fetch, assistantId: "agent", storage: false, threadId });
const streams = (server) => server.requests.filter((each) => each.endsWith("/timeline/stream")).length;
const shown = ({ values }) => values.blocks.map((block) => block.message?.content ?? block.id);

test("components that show one thread share one stream, also in strict mode", async () => {
  const server = serverWith({ t: [text("a", "one")] });
  const Shown = () => createElement("p", null, shown(useStream(optionsFor(server, "t"))).join());
  const page = createElement(StrictMode, null, createElement(Shown), createElement(Shown));
  const { container } = render(page);
  await waitFor(() => assert.equal(container.textContent, "oneone"));
  act(() => server.change("t", [inserted(text("b", "two"), "m:a")]));
  await waitFor(() => assert.equal(container.textContent, "one,twoone,two"));
  assert.equal(streams(server), 1);
});

test("another thread is shown in the same rendering, and nothing of the last one", async () => {
  const server = serverWith({ a: [text("a", "A")], b: [text("b", "B")] });
  const seen = [];
  const { rerender, result } = renderHook(({ threadId }) => {
    const stream = useStream(optionsFor(server, threadId));
    seen.push([threadId, shown(stream).join()]);
    return stream;
  }, { initialProps: { threadId: "a" } });
  await waitFor(() => assert.deepEqual(shown(result.current), ["A"]));
  rerender({ threadId: "b" });
  act(() => server.change("a", [inserted(text("a2", "A2"), "m:a")]));
  await waitFor(() => assert.deepEqual(shown(result.current), ["B"]));
  rerender({ threadId: "a" });
  await waitFor(() => assert.deepEqual(shown(result.current), ["A", "A2"]));
  assert.ok(seen.every(([threadId, texts]) => !texts.includes(threadId === "a" ? "B" : "A")));
});

test("a new thread has an id when something is submitted", async () => {
  const server = serverWith();
  const ids = [];
  const { result, rerender } = renderHook(({ threadId }) =>
    useStream({ ...optionsFor(server, threadId), onThreadId: (id) => ids.push(id) }), { initialProps: { threadId: null } });
  assert.equal(result.current.threadId, null);
  await act(() => result.current.submit({ messages: "Hi" }));
  assert.deepEqual(ids, [result.current.threadId]);
  assert.deepEqual(shown(result.current), ["Hi"]);
  rerender({ threadId: ids[0] });
  assert.deepEqual(shown(result.current), ["Hi"]);
});

test("on a server it renders nothing and sends nothing", async () => {
  const server = serverWith({ t: [text("a", "one")] });
  const { renderToString } = await import("react-dom/server");
  const Shown = () => createElement(Timeline, { stream: useStream(optionsFor(server, "t")) });
  const saved = globalThis.window;
  delete globalThis.window;
  try {
    assert.match(renderToString(createElement(Shown)), /role="log"/);
  } finally {
    globalThis.window = saved;
  }
  assert.deepEqual(server.requests, []);
});

const Approval = ({ value, readOnly }) => {
  const { submit, error } = useInterruptSubmission();
  const approve = () => submit({ approved: true }, { ...value, approved: true });
  return createElement("fieldset", { disabled: readOnly }, value.question, value.approved ? " approved" : "", error ?? "",
    createElement("button", { onClick: approve }, "Approve"));
};

test("a widget answers its interrupt and is read-only from then on", async () => {
  const server = serverWith({ t: [text("a", "one"), asked("i")] });
  const Page = () => createElement(Timeline, { stream: useStream(optionsFor(server, "t")), widgets: { approval: Approval } });
  const { container, getByText } = render(createElement(Page));
  await waitFor(() => getByText("Approve"));
  await act(() => getByText("Approve").click());
  await waitFor(() => assert.ok(container.querySelector("fieldset").disabled));
  await waitFor(() => assert.match(container.textContent, /ok\? approved/));
  assert.deepEqual(server.thread("t").posted[0].response, { approved: true });
});

test("a rejected answer leaves the widget open, with the error", async () => {
  const server = serverWith({ t: [asked("i")] });
  const Page = () => createElement(Timeline, { stream: useStream(optionsFor(server, "t")), widgets: { approval: Approval } });
  const { container, getByText } = render(createElement(Page));
  await waitFor(() => getByText("Approve"));
  server.failures.push({ path: "/interrupts/i", status: 500, data: { detail: "Broken" } });
  await act(() => getByText("Approve").click());
  await waitFor(() => assert.match(container.textContent, /Broken/));
  assert.ok(!container.querySelector("fieldset").disabled);
});

test("a widget that throws, and one that is unknown, leave the rest alone", async (context) => {
  context.mock.method(console, "error", () => undefined);
  const widget = (id, name, props = {}) => ({ ...text(id, ""), id: `u:${id}`, kind: "ui", ui: { type: "ui", id, name, props } });
  const server = serverWith({ t: [widget("x", "throws"), widget("y", "constructor", { k: 1 }), text("a", "alive")] });
  const failed = [];
  const widgets = { throws: ({ value }) => { if (!value.fixed) throw new Error("no"); return "fixed"; } };
  const Page = () => createElement(Timeline, { stream: useStream(optionsFor(server, "t")), widgets, onWidgetError: ({ message }) => failed.push(message) });
  const { container } = render(createElement(Page));
  await waitFor(() => assert.match(container.textContent, /This widget failed: throws.*Unknown widget: constructor.*alive/s));
  assert.ok(failed.every((message) => message === "no") && failed.length > 0);
  const ui = { type: "ui", id: "x", name: "throws", props: { fixed: true } };
  act(() => server.change("t", [{ change: "update", id: "u:x", set: { ui, rev: 2 } }]));
  await waitFor(() => assert.match(container.textContent, /^fixed/));
});

test("a block that has not changed is not drawn again", async () => {
  const server = serverWith({ t: [text("a", "one"), text("b", "two", { status: "streaming" })] });
  const drawn = [];
  const Message = ({ block }) => { drawn.push(block.id); return block.message.content; };
  const Page = () => createElement(Timeline, { stream: useStream(optionsFor(server, "t")), message: Message });
  const { container } = render(createElement(Page));
  await waitFor(() => assert.match(container.textContent, /onetwo/));
  drawn.length = 0;
  act(() => server.change("t", [{ change: "append", id: "m:b", text: "!", rev: 2, updatedAt: 2 }]));
  await waitFor(() => assert.match(container.textContent, /two!/));
  assert.deepEqual(drawn, ["m:b"]);
});

test("the deprecated lists are derived from the blocks", async () => {
  const server = serverWith({ t: [text("a", "one"), asked("i")] });
  const { result } = renderHook(() => useStream(optionsFor(server, "t")));
  await waitFor(() => assert.equal(result.current.interrupt?.interruptId, "i"));
  assert.deepEqual(result.current.messages.map(({ content }) => content), ["one"]);
  assert.deepEqual(result.current.ui, []);
  await act(() => result.current.submitInterruptResponse("yes"));
  await waitFor(() => assert.equal(result.current.interrupt, undefined));
});

test("subgraphs are drawn below the message that opened them, if the page wants that", async () => {
  const caller = text("a", "caller");
  caller.message.tool_calls = [{ name: "f", args: {}, id: "c" }];
  const server = serverWith({ t: [caller, text("b", "inner", { ns: ["tools:1"] }), text("c", "after")] });
  const Page = ({ subgraphs }) => createElement(Timeline, { stream: useStream(optionsFor(server, "t")), subgraphs });
  const { container, rerender } = render(createElement(Page, { subgraphs: "nested" }));
  const inner = () => container.querySelector('[data-block="m:b"]');
  await waitFor(() => assert.equal(inner()?.parentElement.dataset.block, "m:a"));
  assert.equal(container.querySelector('[data-block="m:c"]').parentElement.dataset.block, undefined);
  rerender(createElement(Page, { subgraphs: "inline" }));
  assert.equal(inner().parentElement.dataset.block, undefined);
  rerender(createElement(Page, { subgraphs: "hide" }));
  assert.equal(inner(), null);
});
