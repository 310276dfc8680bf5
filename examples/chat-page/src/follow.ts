/** ChatKit streams only the responses that it has requested. What other tabs, devices and protocols do on the same
 * thread, and the rest of a response after a reload, is loaded with `fetchUpdates` when the stream of the thread
 * reports it. */
import { useEffect, useRef } from "react";

import { server } from "./options";

const MIN_INTERVAL = 250;

export function useFollowedThread(threadId: string | null, fetchUpdates: () => Promise<void>): void {
  const fetch = useRef(fetchUpdates);
  fetch.current = fetchUpdates;
  useEffect(() => {
    if (threadId === null) return;
    const source = new EventSource(`${server}/threads/${encodeURIComponent(threadId)}/timeline/stream?limit=1`);
    const update = throttled(() => fetch.current());
    for (const name of ["open", "snapshot", "changes", "append"]) source.addEventListener(name, update);
    return () => {
      source.close();
      update.cancel();
    };
  }, [threadId]);
}

/** Calls `run` at most every `MIN_INTERVAL`, one at a time, and once after the last call. */
function throttled(run: () => Promise<void>) {
  let state: "idle" | "waiting" | "running" | "again" = "idle";
  let timer = 0;
  const start = async () => {
    state = "running";
    await run().catch(() => {}); // the next event of the stream tries again
    const isWanted = (state as string) === "again";
    state = "idle";
    if (isWanted) call();
  };
  const call = () => {
    if (state === "running") state = "again";
    if (state !== "idle") return;
    state = "waiting";
    timer = window.setTimeout(() => void start(), MIN_INTERVAL);
  };
  return Object.assign(call, { cancel: () => clearTimeout(timer) });
}
