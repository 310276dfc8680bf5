/** The tabs of a browser that show one thread: one of them holds the stream and forwards it to the others. */

/** A browser allows six connections per server, so a stream per tab would leave none for requests. */
export class Tabs<Message> {
  readonly #name: string;
  readonly #channel: BroadcastChannel | undefined;

  constructor(name: string, receive: (message: Message) => void) {
    this.#name = name;
    if (typeof BroadcastChannel === "undefined" || !hasLocks()) return;
    this.#channel = new BroadcastChannel(name);
    this.#channel.onmessage = ({ data }) => receive(data as Message);
  }

  /** Send a message to the other tabs. */
  send(message: Message): void {
    this.#channel?.postMessage(message);
  }

  /** Run the leader's work once no other tab does, until it ends or the signal is aborted. */
  async lead(work: () => Promise<void>, signal: AbortSignal): Promise<void> {
    if (!this.#channel) return work();
    await navigator.locks.request(this.#name, { signal }, work).catch((error: unknown) => {
      if (!signal.aborted) throw error;
    });
  }

  /** Whether another tab may lead. */
  get isShared(): boolean {
    return this.#channel !== undefined;
  }

  close(): void {
    this.#channel?.close();
  }
}

function hasLocks(): boolean {
  // Only pages in a secure context have locks.
  return typeof navigator !== "undefined" && "locks" in navigator && typeof window !== "undefined";
}
