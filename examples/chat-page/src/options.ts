/** The options of an agent, from the server. */
import type { ChatKitOptions } from "@openai/chatkit";
import { useEffect, useState } from "react";

import type { Agent } from "./address";

const RETRY_AFTER = 2_000;

/** The server's address. The page is served below it, at `/chat/`. */
export const server = new URL("..", location.href).href.replace(/\/$/, "");

/** Null until they are loaded. */
export function useOptions(agent: Agent): ChatKitOptions | null {
  const [loaded, setLoaded] = useState<{ agent: Agent; options: ChatKitOptions } | null>(null);
  useEffect(() => {
    const abort = new AbortController();
    void load(agent, abort.signal).then((options) => options && setLoaded({ agent, options }));
    return () => abort.abort();
  }, [agent]);
  return loaded?.agent === agent ? loaded.options : null;
}

/** Load until the server responds. */
async function load(agent: Agent, signal: AbortSignal): Promise<ChatKitOptions | null> {
  while (!signal.aborted) {
    try {
      const response = await fetch(`${server}/chatkit/${agent}/options`, { signal });
      if (response.ok) return (await response.json()) as ChatKitOptions;
    } catch {
      // the server cannot be reached
    }
    await new Promise((resolve) => setTimeout(resolve, RETRY_AFTER));
  }
  return null;
}
