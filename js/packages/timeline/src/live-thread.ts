/** A thread on a page: what is shown of it, and how the parts of a session change that. */
import type { RequestOptions } from "./api.js";
import type { ChangeEvent, Page } from "./changes.js";
import type { ClientOptions, TimelineClient } from "./client.js";
import type { Connection } from "./connection.js";
import { objectOf } from "./json.js";
import type { LiveStore } from "./live-store.js";
import type { LocalOperation, Operation } from "./operations.js";
import type { ServerEvent } from "./sse.js";
import type { Snapshot } from "./store.js";
import type { Tabs } from "./tabs.js";

/** What a page shows of a thread. It never changes; a new one is created when something does. */
export interface ThreadView extends Snapshot {
  connection: Connection;
  error: unknown;
  /** Whether a run is active or being started. */
  isLoading: boolean;
  /** Whether nothing is known about the thread yet. */
  isThreadLoading: boolean;
}

/** An event as it arrived, for inspection. */
export interface ReceivedEvent extends ServerEvent {
  receivedAt: number;
}

/** The messages that tabs send each other. */
export type TabMessage =
  | { type: "page"; page: Page }
  | { type: "changes"; seq: number; previous: number; data: ChangeEvent }
  | { type: "event"; event: ServerEvent }
  | { type: "operation"; operation: Operation | LocalOperation }
  | { type: "connection"; connection: Connection }
  /** Asks the leader to report its connection, and to find out which run is active. */
  | { type: "hello" };

const RECENT = 200;

export class LiveThread {
  readonly id: string;
  readonly client: TimelineClient;
  readonly store: LiveStore;
  readonly options: ClientOptions;
  /** The last events that arrived. */
  readonly events: ReceivedEvent[] = [];
  /** The other tabs that show the thread; undefined while this tab does not show it. */
  tabs: Tabs<TabMessage> | undefined;
  /** Whether the server has the thread; undefined while that is not known. */
  exists: boolean | undefined;
  connection: Connection = { state: "connecting", since: Date.now(), attempt: 0, role: "follower" };
  error: unknown;
  readonly #listeners = new Set<() => void>();
  #view: { snapshot: Snapshot; view: ThreadView } | undefined;
  /** The number of requests in progress that start runs. */
  #starting = 0;

  constructor(client: TimelineClient, id: string) {
    this.client = client;
    this.id = id;
    this.store = client.store;
    this.options = client.options;
    this.store.subscribe(id, () => this.#notify());
  }

  // -- reading -------------------------------------------------------------------------------------------------------

  view(): ThreadView {
    const snapshot = this.snapshot;
    if (this.#view?.snapshot !== snapshot) this.#view = { snapshot, view: this.#viewOf(snapshot) };
    return this.#view.view;
  }

  get snapshot(): Snapshot {
    return this.store.snapshot(this.id);
  }

  #viewOf(snapshot: Snapshot): ThreadView {
    const { client, connection, error } = this;
    const { storageProblem } = client;
    return {
      ...snapshot,
      connection: {
        ...connection,
        ...(snapshot.seq > 0 && { lastEventId: String(snapshot.seq) }),
        ...(storageProblem !== undefined && { storageProblem }),
      },
      error,
      isLoading: this.#starting > 0 || snapshot.run !== null,
      isThreadLoading: snapshot.blocks.length === 0 && connection.state === "connecting",
    };
  }

  /** Call the listener after every change. Returns a function that unsubscribes. */
  listen(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Wait until a condition holds, or the signal is aborted. */
  until(condition: () => boolean, signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const check = () => {
        if (!condition() && !signal.aborted) return;
        stop();
        resolve();
      };
      const stop = this.listen(check);
      signal.addEventListener("abort", check);
      check();
    });
  }

  source(): Promise<"timeline" | "runs"> {
    return this.client.source(this.id);
  }

  /** Send a request about the thread, to a path below its own. */
  request(method: string, path: string, options?: RequestOptions): Promise<Response> {
    return this.client.api.request(method, `/threads/${encodeURIComponent(this.id)}${path}`, options);
  }

  json<T>(method: string, path: string, body?: unknown): Promise<T> {
    return this.request(method, path, { body }).then((response) => response.json() as Promise<T>);
  }

  // -- changing ------------------------------------------------------------------------------------------------------

  enqueue(operation: () => void): void {
    this.client.actor.enqueue(this.id, operation);
  }

  /** Show what the user did, here and in the other tabs, before the server has it. */
  applyLocally(operation: LocalOperation | Operation): void {
    const stamped = { at: Date.now(), ...operation };
    this.enqueue(() => this.store.apply(this.id, stamped));
    this.broadcast({ type: "operation", operation: stamped });
    this.save(true);
  }

  /** Send a request that starts a run. */
  async starting<T>(send: () => Promise<T>): Promise<T> {
    this.#starting++;
    this.error = undefined;
    this.touch();
    try {
      return await send();
    } finally {
      this.#starting--;
      this.touch();
    }
  }

  broadcast(message: TabMessage): void {
    this.tabs?.send(message);
  }

  /** Store the thread in the browser, now or soon. Only one tab stores it. */
  save(isUrgent: boolean): void {
    if (this.connection.role !== "leader") return;
    void this.client.persistence.saveThread(this.id, () => this.store.record(this.id), isUrgent);
  }

  remember(event: ServerEvent): void {
    this.events.push({ ...event, receivedAt: Date.now() });
    if (this.events.length > RECENT) this.events.shift();
  }

  setConnection(changed: Partial<Connection>): void {
    const isOther = changed.state !== undefined && changed.state !== this.connection.state;
    this.connection = { ...this.connection, ...changed, ...(isOther && { since: Date.now() }) };
    if (this.connection.role === "leader") this.broadcast({ type: "connection", connection: this.connection });
    this.touch();
  }

  report(error: unknown): unknown {
    this.error = error;
    this.options.onError?.(error, this.id);
    this.touch();
    return error;
  }

  /** Show a status that is not part of the timeline. */
  touch(): void {
    this.#view = undefined;
    this.#notify();
  }

  #notify(): void {
    for (const listener of this.#listeners) listener();
  }
}

export function textOf(error: unknown): string {
  if (error instanceof Error) return error.message;
  const { message, error: name } = objectOf(error);
  return String(message ?? name ?? error);
}
