/** A page that loads and shows a whole thread, and records when it was painted. */
import { Timeline, useStream } from "@threadwire/react";
import { createElement, useEffect } from "react";
import { createRoot } from "react-dom/client";

const parameters = new URLSearchParams(location.search);
const expected = Number(parameters.get("blocks"));
const threadId = parameters.get("thread");

function Page() {
  const stream = useStream({ assistantId: "tokens", threadId, pageSize: 1000 });
  const { values, hasEarlier, loadEarlier, connection } = stream;
  const count = values.blocks.length;
  useEffect(() => {
    if (connection.state === "live" && hasEarlier && count < expected) void loadEarlier();
    if (count >= expected && window.paintedAt === undefined) {
      requestAnimationFrame(() => requestAnimationFrame(() => (window.paintedAt ??= performance.now())));
    }
  }, [connection.state, hasEarlier, count]);
  window.shown = { state: connection.state, isLoading: stream.isLoading, count };
  return createElement(Timeline, { stream });
}

createRoot(document.getElementById("root")).render(createElement(Page));
