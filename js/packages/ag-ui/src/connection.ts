/** The state of the connection to the server. */
export type ConnectionStatus =
  | { readonly state: "connecting" }
  | { readonly state: "connected" }
  /** Connecting failed, or the connection was lost, `attempt` times in a row. Another attempt follows. */
  | { readonly state: "reconnecting"; readonly attempt: number; readonly reason: string }
  /** The agent gave up. */
  | { readonly state: "error"; readonly reason: string }
  /** No stream is open: none was requested, or it has ended. */
  | { readonly state: "closed" };

export type StatusListener = (status: ConnectionStatus) => void;

/** The status of an agent's connection, and its listeners. Works with React's `useSyncExternalStore`. */
export class Connection {
  private current: ConnectionStatus = { state: "closed" };
  private readonly listeners = new Set<StatusListener>();

  get status(): ConnectionStatus {
    return this.current;
  }

  readonly getSnapshot = (): ConnectionStatus => this.current;

  readonly subscribe = (listener: StatusListener): (() => void) => {
    this.listeners.add(listener);
    return () => void this.listeners.delete(listener);
  };

  /** @internal */
  report(status: ConnectionStatus): void {
    if (this.isUnchanged(status)) return;
    this.current = status;
    for (const listener of [...this.listeners]) listener(status);
  }

  /** Whether to report nothing. If one stream replaces another, the connection stays `connected`. */
  private isUnchanged({ state }: ConnectionStatus): boolean {
    if (state === "connecting") return this.current.state === "connecting" || this.current.state === "connected";
    return state === this.current.state && (state === "connected" || state === "closed");
  }
}
