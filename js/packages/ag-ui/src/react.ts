import type { Message } from "@ag-ui/client";
import { useCallback, useEffect, useRef, useState, useSyncExternalStore } from "react";

import type { ThreadwireAgent } from "./agent.js";
import type { ConnectionStatus } from "./connection.js";
import { reasonOf } from "./retry.js";

export interface AgentConnectionOptions {
  /** Also show what happens between runs and in runs that other clients start. Default: true. */
  follow?: boolean;
  /** Reload the state and the messages once the connection is established, and after each reconnect. Default: true. */
  sync?: boolean;
  /** Milliseconds after which the status is an error without a connection. Retries continue. Default: 10 000. */
  timeout?: number;
  /** Connect only once this resolves, for example when the thread has been created. */
  ready?: PromiseLike<unknown>;
}

/** A failed run, or the reason why the thread cannot be shown. */
export interface ReportedError {
  readonly message: string;
  /** The `code` of the `RUN_ERROR`, such as the HTTP status. */
  readonly code: string | undefined;
}

export interface AgentConnection<State> {
  /** `connecting`, `connected`, `reconnecting`, or `error` with a reason. */
  readonly status: ConnectionStatus;
  readonly state: State;
  readonly messages: readonly Message[];
  /** Whether a run is active, including runs that other clients started. */
  readonly running: boolean;
  /** The last error that a run reported, until it is dismissed or the next run starts. */
  readonly error: ReportedError | undefined;
  dismissError(): void;
  /** Connect again after an error. */
  retry(): void;
}

const DEFAULT_TIMEOUT = 10_000;

/**
 * Connect an agent to its thread for as long as the component is mounted.
 *
 * What is visible is never reset: while the connection is down, the state and the messages stay, and afterwards only
 * what has changed is replaced. Unmounting does not stop a run.
 */
export function useAgentConnection<State = Record<string, unknown>>(
  agent: ThreadwireAgent,
  { follow = true, sync = true, timeout = DEFAULT_TIMEOUT, ready }: AgentConnectionOptions = {},
): AgentConnection<State> {
  const [attempt, setAttempt] = useState(0);
  const [error, setError] = useState<ReportedError | undefined>();
  const [failure, setFailure] = useState<string | undefined>();

  useEffect(() => {
    const session = new Session(agent, { follow, sync, timeout }, setError, setFailure);
    void session.start(ready);
    return () => session.stop();
  }, [agent, follow, sync, timeout, ready, attempt]);

  const subscribe = useCallback((onChange: () => void) => subscribeToChanges(agent, onChange), [agent]);
  const status = useSyncExternalStore(agent.connection.subscribe, agent.connection.getSnapshot);
  return {
    status: useShownStatus(status, failure),
    state: useSyncExternalStore(subscribe, () => agent.state as State),
    messages: useSyncExternalStore(subscribe, () => agent.messages),
    running: useSyncExternalStore(subscribe, () => agent.isRunning),
    error,
    dismissError: useCallback(() => setError(undefined), []),
    retry: useCallback(() => setAttempt((count) => count + 1), []),
  };
}

/** A thread whose connect has ended is connected. Before the first connect it is connecting. */
function useShownStatus(status: ConnectionStatus, failure: string | undefined): ConnectionStatus {
  const wasConnected = useRef(false);
  if (status.state === "connected") wasConnected.current = true;
  if (failure !== undefined && status.state !== "connected") return { state: "error", reason: failure };
  if (status.state === "closed") return { state: wasConnected.current ? "connected" : "connecting" };
  return status;
}

type SessionOptions = Required<Omit<AgentConnectionOptions, "ready">>;

/** One connection of an agent, from mounting to unmounting or the next retry. */
class Session {
  private readonly cleanups: (() => void)[] = [];
  private timer: ReturnType<typeof setTimeout> | undefined;
  private stopped = false;
  private synced = false;

  constructor(
    private readonly agent: ThreadwireAgent,
    private readonly options: SessionOptions,
    private readonly setError: (error: ReportedError | undefined) => void,
    private readonly setFailure: (reason: string | undefined) => void,
  ) {}

  async start(ready: PromiseLike<unknown> | undefined): Promise<void> {
    this.setFailure(undefined);
    this.startTimeout();
    this.cleanups.push(this.agent.connection.subscribe((status) => this.onStatus(status)));
    try {
      await ready;
      if (!this.stopped) await this.connect();
    } catch (error) {
      if (!this.stopped) this.setFailure(reasonOf(error));
    }
  }

  stop(): void {
    this.stopped = true;
    for (const cleanup of this.cleanups) cleanup();
  }

  private async connect(): Promise<void> {
    const subscriber = {
      onRunStartedEvent: () => this.setError(undefined),
      onRunErrorEvent: ({ event }: { event: { message: string; code?: string | undefined } }) =>
        this.setError({ message: event.message, code: event.code }),
    };
    if (this.options.follow) {
      this.cleanups.push(this.agent.follow(subscriber));
    } else {
      this.cleanups.push(() => void this.agent.detachActiveRun());
      await this.agent.connectAgent({}, subscriber);
    }
  }

  private startTimeout(): void {
    const { timeout } = this.options;
    const onTimeout = () => this.setFailure(`No connection within ${timeout / 1000} s`);
    this.timer = setTimeout(onTimeout, timeout);
    this.cleanups.push(() => clearTimeout(this.timer));
  }

  private onStatus({ state }: ConnectionStatus): void {
    if (state === "reconnecting") this.synced = false;
    if (state !== "connected") return;
    this.setFailure(undefined);
    clearTimeout(this.timer);
    if (!this.options.sync || this.synced) return;
    this.synced = true;
    // A failed sync changes nothing: the stream itself reports the error.
    this.agent.sync().catch(() => {});
  }
}

function subscribeToChanges(agent: ThreadwireAgent, onChange: () => void): () => void {
  const { unsubscribe } = agent.subscribe({
    onStateChanged: onChange,
    onMessagesChanged: onChange,
    onRunInitialized: onChange,
    onRunFinalized: onChange,
  });
  return unsubscribe;
}
