import { mirror, ThreadwireAgent, type ConnectionStatus } from "@threadwire/ag-ui";
import { useAgent } from "@copilotkit/react-core/v2";
import { useCallback, useEffect, useMemo, useState, useSyncExternalStore } from "react";

import type { Board } from "./board";
import { server, type Thread } from "./thread";

export interface Followed {
  readonly board: Board;
  readonly status: ConnectionStatus;
  /** Whether a run is under way, whoever started it. */
  readonly running: boolean;
  /** Follow anew, after it was given up. */
  again(): void;
}

/**
 * The thread over all its runs, whoever starts them. CopilotKit's own agent knows only of the runs it starts itself, so
 * it is shown the others'.
 */
export function useFollowed(thread: Thread, onError: (message: string) => void): Followed {
  const agent = useMemo(() => new ThreadwireAgent({ url: `${server}/ag-ui/dashboard`, threadId: thread.id }), [thread]);
  const { agent: chat } = useAgent({ agentId: "dashboard" });
  const [attempt, setAttempt] = useState(0);

  useEffect(() => {
    let left = false;
    let unfollow = () => {};
    thread.ready.then(
      () => {
        if (!left) unfollow = agent.follow({ onRunErrorEvent: ({ event }) => onError(event.message) });
      },
      (error: Error) => onError(error.message),
    );
    return () => {
      left = true;
      unfollow();
    };
  }, [agent, thread, attempt, onError]);

  useEffect(() => mirror(agent, chat), [agent, chat]);

  const subscribe = useCallback(
    (changed: () => void) => {
      const { unsubscribe } = agent.subscribe({
        onStateChanged: changed,
        onRunInitialized: changed,
        onRunFinalized: changed,
      });
      return unsubscribe;
    },
    [agent],
  );
  return {
    board: useSyncExternalStore(subscribe, () => agent.state as Board),
    running: useSyncExternalStore(subscribe, () => agent.isRunning),
    status: useSyncExternalStore(agent.connection.subscribe, agent.connection.getSnapshot),
    again: () => setAttempt((count) => count + 1),
  };
}
