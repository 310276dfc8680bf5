/** One thread on a page: loaded from the cache, then followed by one tab of the browser on behalf of all tabs. */
import { ThreadActions } from "./actions.js";
import { ApiError } from "./api.js";
import { waitToRetry } from "./connection.js";
import type { ReceivedEvent, TabMessage, ThreadView } from "./live-thread.js";
import { Tabs } from "./tabs.js";

const CLOSE_DELAY = 1_000;
const LEADER_DELAY = 50;
/** How long to wait for the stored copy. A browser may never open its database. */
const CACHE_TIMEOUT = 2_000;

export class ThreadSession extends ThreadActions {
  readonly threadId: string = this.thread.id;
  /** The last events that arrived. */
  readonly events: readonly ReceivedEvent[] = this.thread.events;
  #users = 0;
  #open: AbortController | undefined;
  #closing: ReturnType<typeof setTimeout> | undefined;

  readonly getSnapshot = (): ThreadView => this.thread.view();

  /** Connect, if this is the first subscriber, and call the listener after every change. */
  readonly subscribe = (listener: () => void): (() => void) => {
    const stop = this.thread.listen(listener);
    this.#attach();
    return () => {
      stop();
      this.#detach();
    };
  };

  /** Show a status that is not part of the timeline. */
  touch(): void {
    this.thread.touch();
  }

  // -- opening and closing -------------------------------------------------------------------------------------------

  #attach(): void {
    this.#users++;
    clearTimeout(this.#closing);
    if (this.#open) return;
    const { client, id } = this.thread;
    const { signal } = (this.#open = new AbortController());
    const tabs = new Tabs<TabMessage>(`threadwire:${client.scope}:${id}`, (message) =>
      this.thread.enqueue(() => this.#receive(message)),
    );
    this.thread.tabs = tabs;
    void this.#start(tabs, signal).catch((error: unknown) => {
      this.thread.setConnection({ state: "error" });
      this.thread.report(error);
    });
  }

  /** Close soon, unless the thread is shown again, as when a component is mounted twice. */
  #detach(): void {
    this.#users--;
    clearTimeout(this.#closing);
    if (this.#users === 0) this.#closing = setTimeout(() => this.#close(), CLOSE_DELAY);
  }

  #close(): void {
    if (this.runs.isReading) {
      this.#closing = setTimeout(() => this.#close(), CLOSE_DELAY);
      return;
    }
    this.#open?.abort();
    this.#open = undefined;
    this.thread.tabs?.close();
    this.thread.tabs = undefined;
    void this.thread.client.persistence.flush();
  }

  async #start(tabs: Tabs<TabMessage>, signal: AbortSignal): Promise<void> {
    await Promise.race([this.#hydrate(), delay(CACHE_TIMEOUT)]);
    if (signal.aborted) return;
    this.#flushWhenHidden(signal);
    const leading = tabs.lead(() => this.#lead(signal), signal);
    if (tabs.isShared) {
      await Promise.race([leading, delay(LEADER_DELAY)]);
      if (this.thread.connection.role === "follower" && !signal.aborted) await this.#startFollowing();
    }
    await leading;
  }

  async #hydrate(): Promise<void> {
    const { thread } = this;
    if (thread.snapshot.blocks.length > 0) return; // another component has shown it before
    const record = await thread.client.persistence.loadThread(thread.id);
    thread.enqueue(() => {
      if (!record || this.timeline.isSynced || thread.snapshot.lastUpdatedAt > 0) return;
      thread.store.hydrate(thread.id, record);
      thread.setConnection({ state: "cached" });
    });
  }

  #flushWhenHidden(signal: AbortSignal): void {
    if (typeof window === "undefined") return;
    const flush = () => void this.thread.client.persistence.flush();
    window.addEventListener("pagehide", flush, { signal });
    document.addEventListener("visibilitychange", flush, { signal });
  }

  // -- leading -------------------------------------------------------------------------------------------------------

  async #lead(signal: AbortSignal): Promise<void> {
    const { thread, timeline } = this;
    thread.setConnection({ role: "leader" });
    if (timeline.isSynced) thread.save(true); // what it has loaded as a follower
    for (let attempt = 0; !signal.aborted; ) {
      const existed = thread.exists ?? false;
      try {
        const { state } = thread.connection;
        if (attempt === 0 && state !== "live") thread.setConnection({ state: state === "connecting" ? state : "syncing" });
        if ((await thread.source()) === "runs") return await this.runs.follow(signal);
        thread.exists = true;
        await timeline.follow(signal, () => (attempt = 0));
        if (timeline.rests) {
          await thread.until(() => !timeline.rests, signal);
          continue;
        }
      } catch (error) {
        if (signal.aborted) return;
        const isHandled = error instanceof ApiError && (await this.#handleRejection(error, existed, signal));
        if (isHandled) continue;
      }
      attempt++;
      const isOffline = typeof navigator !== "undefined" && navigator.onLine === false;
      thread.setConnection({ state: isOffline ? "offline" : "reconnecting", attempt });
      await waitToRetry(attempt, signal);
    }
  }

  /** Returns whether to connect again immediately. `existed` says whether the thread did when the request was sent. */
  async #handleRejection(error: ApiError, existed: boolean, signal: AbortSignal): Promise<boolean> {
    const { thread, timeline } = this;
    if (error.status === 400 && timeline.isSynced) {
      timeline.isSynced = false; // the server rejected the position
      thread.setConnection({ repair: "reloaded" });
      return true;
    }
    if (error.status === 404 && !existed) {
      thread.setConnection({ state: "idle" });
      await thread.until(() => thread.exists === true, signal);
      return true;
    }
    if (error.status === 404) {
      thread.store.forget(thread.id); // it was deleted
      await thread.client.persistence.remove(thread.id);
    }
    if (error.status < 500 && ![408, 425, 429].includes(error.status)) throw error;
    return false;
  }

  // -- following another tab -----------------------------------------------------------------------------------------

  async #startFollowing(): Promise<void> {
    this.thread.broadcast({ type: "hello" });
    if ((await this.thread.source().catch(() => "timeline")) === "runs") await this.runs.loadState();
    else await this.timeline.loadPage();
  }

  #receive(message: TabMessage): void {
    const { thread, timeline } = this;
    const isLeader = thread.connection.role === "leader";
    switch (message.type) {
      case "page":
        timeline.receivePage(message.page);
        break;
      case "changes":
        timeline.receiveFromTab(message);
        break;
      case "event":
        this.runs.apply(message.event);
        break;
      case "operation":
        thread.store.apply(thread.id, message.operation);
        break;
      case "connection":
        if (!isLeader) thread.setConnection({ ...message.connection, role: "follower" });
        break;
      case "hello":
        if (!isLeader) break;
        thread.setConnection({}); // this also notifies the other tabs
        void timeline.refresh();
    }
  }
}

function delay(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}
