/** The timeline of a thread as a Threadwire server sends it: a page, then what changes. */
import { ApiError } from "./api.js";
import type { ChangeEvent, Page } from "./changes.js";
import type { Json } from "./json.js";
import type { LiveThread, TabMessage } from "./live-thread.js";
import { IDLE_TIMEOUT, readEvents, type ServerEvent } from "./sse.js";

const PAGE_SIZE = 100;

type TabChanges = TabMessage & { type: "changes" };
type ReceivedChanges = Pick<TabChanges, "seq" | "data">;

export class TimelineStream {
  /** Whether the timeline is the server's, at the position of the snapshot. */
  isSynced = false;
  readonly #thread: LiveThread;
  /** The changes that arrive while a page is loaded. The page may be older than they are. */
  #early: ReceivedChanges[] | undefined;

  constructor(thread: LiveThread) {
    this.#thread = thread;
  }

  /** Connect, after the position if there is one, and apply what arrives until the connection ends. */
  async follow(signal: AbortSignal, onEvent: () => void): Promise<void> {
    const thread = this.#thread;
    const connection = new AbortController();
    signal.addEventListener("abort", () => connection.abort(), { signal: connection.signal });
    try {
      const response = await this.#connect(connection);
      if (this.isSynced) {
        const repair = thread.connection.attempt > 0 ? { repair: "resumed" as const } : {};
        thread.setConnection({ state: "live", attempt: 0, ...repair });
      }
      for await (const event of readEvents(response, thread.options.idleTimeout)) {
        onEvent();
        thread.enqueue(() => this.#receive(event));
        if (this.rests) return;
      }
    } finally {
      connection.abort();
    }
  }

  /** Request the stream. A request that gets no response is aborted. */
  #connect(connection: AbortController): Promise<Response> {
    const thread = this.#thread;
    const position = this.isSynced ? { lastEventId: String(thread.snapshot.seq) } : {};
    const { signal } = connection;
    const timer = setTimeout(() => connection.abort(), thread.options.idleTimeout ?? IDLE_TIMEOUT);
    const request = thread.request("GET", `/timeline/stream?${this.#limit}`, { ...position, signal });
    return request.finally(() => clearTimeout(timer));
  }

  /** Whether no stream is needed: no run is active, and the page does not follow the runs of other clients. */
  get rests(): boolean {
    return this.#thread.options.follow === false && this.isSynced && !this.#thread.view().isLoading;
  }

  /** Find out which run is active after one was started, if no stream reports it. */
  async refresh(): Promise<void> {
    if (this.#thread.options.follow === false) await this.loadPage();
  }

  #receive(event: ServerEvent): void {
    const thread = this.#thread;
    thread.remember(event);
    if (event.event === "snapshot") {
      const page = event.data as unknown as Page;
      this.receivePage(page);
      thread.broadcast({ type: "page", page });
      thread.setConnection({ state: "live", attempt: 0 });
      thread.save(true);
    } else if (event.event === "changes" || event.event === "append") {
      const seq = Number(event.id);
      const previous = thread.snapshot.seq;
      const data = changesOf(event);
      this.#apply({ seq, data });
      thread.broadcast({ type: "changes", seq, previous, data });
      thread.save(!data.changes.every(({ change }) => change === "append" || change === "merge"));
    }
  }

  /** Show a page, and what has changed since. A page that is still being loaded is discarded. */
  receivePage(page: Page): void {
    this.#thread.store.receivePage(this.#thread.id, page);
    this.isSynced = true;
    const early = this.#early ?? [];
    this.#early = undefined;
    early.forEach((changes) => this.#apply(changes));
  }

  #apply({ seq, data: { custom = [], ...data } }: ReceivedChanges): void {
    const { id, store, options, snapshot } = this.#thread;
    this.#early?.push({ seq, data });
    store.receiveChanges(id, seq, data);
    if (seq > snapshot.seq) for (const value of custom) options.onCustomEvent?.(value, id);
  }

  /** Apply changes that another tab has received. */
  receiveFromTab(changes: TabChanges): void {
    this.#thread.remember({ event: "changes", data: changes.data as unknown as Json, id: String(changes.seq) });
    if (this.isSynced && changes.previous <= this.#thread.snapshot.seq) {
      this.#apply(changes);
    } else {
      void this.loadPage();
      this.#early?.push(changes);
    }
  }

  /** Load the last page, because this tab does not know what its leader has. */
  async loadPage(): Promise<void> {
    if (this.#early) return; // it is being loaded
    const early = (this.#early = []);
    this.isSynced = false;
    const thread = this.#thread;
    try {
      const page = await this.#page("");
      thread.enqueue(() => this.#early === early && this.receivePage(page));
      const { role, state } = thread.connection;
      if (role === "follower" && state !== "live") thread.setConnection({ state: "live" });
    } catch (error) {
      if (this.#early === early) this.#early = undefined; // the next change loads the page again
      if (!(error instanceof ApiError)) thread.error = error;
    }
  }

  /** Load the blocks before the first one. Returns whether there are more. */
  async loadEarlier(): Promise<boolean> {
    for (;;) {
      const { before } = this.#thread.snapshot;
      if (before === undefined) return false;
      const page = await this.#page(`&before=${encodeURIComponent(before)}`);
      const { store, id } = this.#thread;
      if (store.receiveEarlierPage(id, page)) return page.before !== undefined;
    }
  }

  #page(query: string): Promise<Page> {
    return this.#thread.json<Page>("GET", `/timeline?${this.#limit}${query}`);
  }

  get #limit(): string {
    return `limit=${this.#thread.options.pageSize ?? PAGE_SIZE}`;
  }
}

/** What an event changes. A token has a short form. */
function changesOf({ event, data }: ServerEvent): ChangeEvent {
  if (event !== "append") return data as unknown as ChangeEvent;
  const [id, text, rev, updatedAt] = data as [string, string, number, number];
  return { changes: [{ change: "append", id, text, rev, updatedAt }] };
}
