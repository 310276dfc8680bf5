import { mirror, ThreadwireAgent, type ConnectionStatus } from "@threadwire/ag-ui";
import { useAgent } from "@copilotkit/react-core/v2";
import { useCallback, useEffect, useMemo, useState, useSyncExternalStore } from "react";

import type { Board } from "./board";
import { server, type Thread } from "./thread";

export interface FollowedThread {
  readonly board: Board;
  readonly status: ConnectionStatus;
  /** Whether a run is active, including runs that other clients started. */
  readonly running: boolean;
  /** Follow again after the agent gave up. */
  retry(): void;
}

/**
 * Follow the thread across all its runs, including those that other clients start. CopilotKit's own agent only sees
 * runs that it starts itself, so `mirror` copies the others to it.
 */
export function useFollowedThread(thread: Thread, onError: (message: string) => void): FollowedThread {
  const agent = useMemo(() => new ThreadwireAgent({ url: `${server}/ag-ui/dashboard`, threadId: thread.id }), [thread]);
  const { agent: chat } = useAgent({ agentId: "dashboard" });
  const [attempt, setAttempt] = useState(0);

  useEffect(() => {
    let unmounted = false;
    let unfollow = () => {};
    thread.ready.then(
      () => {
        if (!unmounted) unfollow = agent.follow({ onRunErrorEvent: ({ event }) => onError(event.message) });
      },
      (error: Error) => onError(error.message),
    );
    return () => {
      unmounted = true;
      unfollow();
    };
  }, [agent, thread, attempt, onError]);

  useEffect(() => mirror(agent, chat), [agent, chat]);

  const subscribe = useCallback(
    (onChange: () => void) => {
      const { unsubscribe } = agent.subscribe({
        onStateChanged: onChange,
        onRunInitialized: onChange,
        onRunFinalized: onChange,
      });
      return unsubscribe;
    },
    [agent],
  );
  return {
    board: useSyncExternalStore(subscribe, () => agent.state as Board),
    running: useSyncExternalStore(subscribe, () => agent.isRunning),
    status: useSyncExternalStore(agent.connection.subscribe, agent.connection.getSnapshot),
    retry: () => setAttempt((count) => count + 1),
  };
}
