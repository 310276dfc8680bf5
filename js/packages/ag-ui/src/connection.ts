/** How it stands with the server. */
export type ConnectionStatus =
  | { readonly state: "connecting" }
  | { readonly state: "connected" }
  /** The connection was lost, or could not be made, for the `attempt`th time in a row; it is tried again. */
  | { readonly state: "reconnecting"; readonly attempt: number; readonly reason: string }
  /** It was given up. */
  | { readonly state: "error"; readonly reason: string }
  /** There is no stream: none was asked for, or it came to its end. */
  | { readonly state: "closed" };

export type StatusListener = (status: ConnectionStatus) => void;

/** The status of an agent's connection, and who wants to hear of it. Fits React's `useSyncExternalStore`. */
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
    if (this.isNoNews(status)) return;
    this.current = status;
    for (const listener of [...this.listeners]) listener(status);
  }

  /** One stream taking the place of another is none. */
  private isNoNews({ state }: ConnectionStatus): boolean {
    if (state === "connecting") return this.current.state === "connecting" || this.current.state === "connected";
    return state === this.current.state && (state === "connected" || state === "closed");
  }
}
