/**
 * A typical page built with `useStream` of `@langchain/react`. It has no dependencies on its surroundings: tests render
 * it under a DOM, and bundle it for a browser.
 */
import { useMessageMetadata, useMessages, useStream, useSubmissionQueue } from "@langchain/react";
import { createElement as h } from "react";

/** @param {{ options: any, onRender?: (stream: any) => void }} props */
export function WirePage({ options, onRender = () => {} }) {
  const stream = useStream(options);
  const queue = useSubmissionQueue(stream);
  onRender(stream);
  return h("main", { "aria-busy": stream.isLoading, "data-thread": stream.threadId }, [
    h("ol", { key: "messages" }, stream.messages.map((message, at) => h(Item, { key: message.id ?? at, stream, message }))),
    h("ul", { key: "tools" }, stream.toolCalls.map((call) => h("li", { key: call.id ?? call.callId, "data-tool": call.name, "data-status": call.status }))),
    h("section", { key: "subgraphs" }, [...stream.subgraphs.values()].map((each) => h(Subgraph, { key: each.id, stream, each }))),
    h("aside", { key: "queue", "data-size": queue.size ?? queue.entries.length }),
    ...stream.interrupts.map((each) =>
      h("p", { key: each.id, role: "dialog", "data-id": each.id }, JSON.stringify(each.value)),
    ),
    stream.error != null && h("p", { key: "error", role: "alert" }, String(/** @type {any} */ (stream.error).message)),
  ]);
}

/** @param {{ stream: any, message: any }} props */
function Item({ stream, message }) {
  const metadata = useMessageMetadata(stream, message.id);
  return h("li", { "data-type": message.getType(), "data-parent": metadata?.parentCheckpointId ?? "" }, message.text);
}

/** @param {{ stream: any, each: any }} props */
function Subgraph({ stream, each }) {
  const messages = useMessages(stream, each);
  const text = messages.map((/** @type {any} */ message) => `${message.getType()}: ${message.text}`).join(", ");
  return h("figure", { "data-namespace": each.namespace.join("|"), "data-status": each.status }, text);
}
