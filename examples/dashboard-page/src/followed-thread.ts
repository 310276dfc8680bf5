import { mirror, ThreadwireAgent, type ConnectionStatus } from "@threadwire/ag-ui";
import { type ReportedError, useAgentConnection } from "@threadwire/ag-ui/react";
import { useAgent } from "@copilotkit/react-core/v2";
import { useEffect, useMemo } from "react";

import type { Board } from "./board";
import { server, type Thread } from "./thread";

export interface FollowedThread {
  readonly board: Board;
  readonly status: ConnectionStatus;
  /** Whether a run is active, including runs that other clients started. */
  readonly running: boolean;
  /** Why the last run failed. */
  readonly error: ReportedError | undefined;
  /** Follow again after the agent gave up. */
  retry(): void;
}

/**
 * Follow the thread across all its runs, including those that other clients start. CopilotKit's own agent only sees
 * runs that it starts itself, so `mirror` copies the others to it.
 */
export function useFollowedThread(thread: Thread): FollowedThread {
  const agent = useMemo(() => new ThreadwireAgent({ url: `${server}/ag-ui/dashboard`, threadId: thread.id }), [thread]);
  const { agent: chat } = useAgent({ agentId: "dashboard" });
  const { state: board, status, running, error, retry } = useAgentConnection<Board>(agent, { ready: thread.ready });

  useEffect(() => mirror(agent, chat), [agent, chat]);

  // A message in the chat creates the thread that the address names, if it does not exist yet.
  const isMissing = status.state === "error";
  useEffect(() => {
    if (!isMissing) return;
    const { unsubscribe } = chat.subscribe({ onRunFinalized: retry });
    return unsubscribe;
  }, [chat, isMissing, retry]);

  return { board, status, running, error, retry };
}
