/** The client of a LangGraph server, for a page that shows timelines. */
import { ThreadActor } from "./actor.js";
import { Api, ApiError, type ApiOptions } from "./api.js";
import { indexedDbStorage } from "./indexed-db.js";
import type { Json } from "./json.js";
import { LiveStore } from "./live-store.js";
import { Persistence } from "./persistence.js";
import type { TimelineOptions } from "./state.js";
import { memoryStorage, type TimelineStorage } from "./storage.js";
import { ThreadSession } from "./session.js";

export interface ClientOptions extends ApiOptions, TimelineOptions {
  assistantId?: string;
  /** Where threads are stored in the browser, by default in IndexedDB; false stores nothing. */
  storage?: TimelineStorage | false;
  /** Identifies the user, if several share a browser. */
  principal?: string;
  /** `timeline`: a Threadwire server. `runs`: the run streams of any LangGraph server. By default it is detected. */
  source?: "timeline" | "runs";
  /**
   * Whether to stay connected between runs, and so see the runs of crons and other devices; true by default. With false,
   * there is a connection only while a run is active. Only with the source `timeline`.
   */
  follow?: boolean;
  /** How many blocks are loaded at a time. */
  pageSize?: number;
  /** Milliseconds without a heartbeat after which the connection counts as lost. */
  idleTimeout?: number;
  /** Called with custom data of a node that is not a widget, when it is written. */
  onCustomEvent?: (value: Json, threadId: string) => void;
  onError?: (error: unknown, threadId: string) => void;
}

/** The threads that a page shows. Each has one connection, however many components show it. */
export class TimelineClient {
  readonly options: ClientOptions;
  readonly api: Api;
  readonly store: LiveStore;
  readonly actor: ThreadActor;
  readonly persistence: Persistence;
  /** What distinguishes servers and users that share a browser. */
  readonly scope: string;
  storageProblem: string | undefined;
  readonly #sessions = new Map<string, ThreadSession>();
  #source: "timeline" | "runs" | undefined;

  constructor(options: ClientOptions) {
    this.options = { ...options };
    this.api = new Api(this.options);
    this.store = new LiveStore(options);
    this.actor = new ThreadActor({ onError: (threadId, error) => this.options.onError?.(error, threadId) });
    this.scope = [absolute(this.api.url), options.principal ?? ""].join("|");
    this.#source = options.source;
    this.persistence = new Persistence(chosenStorage(options.storage), {
      scope: this.scope,
      onProblem: (error) => {
        this.storageProblem = error instanceof Error ? error.message || error.name : String(error);
        for (const session of this.#sessions.values()) session.touch();
      },
    });
  }

  /** Replace the options that may change while the client is in use: headers and callbacks. */
  configure(changed: Pick<ClientOptions, "headers" | "onCustomEvent" | "onError">): void {
    Object.assign(this.options, changed);
  }

  /** The session of a thread. It connects when it is opened. */
  thread(threadId: string): ThreadSession {
    let session = this.#sessions.get(threadId);
    if (!session) this.#sessions.set(threadId, (session = new ThreadSession(this, threadId)));
    return session;
  }

  /** Whether the server has timelines. Throws if the thread does not exist. */
  async source(threadId: string): Promise<"timeline" | "runs"> {
    if (this.#source) return this.#source;
    const path = `/threads/${encodeURIComponent(threadId)}`;
    if (await this.#exists(`${path}/timeline?limit=1`)) return (this.#source = "timeline");
    await this.api.request("GET", path);
    // The thread exists; it may have been created in between.
    return (this.#source ??= (await this.#exists(`${path}/timeline?limit=1`)) ? "timeline" : "runs");
  }

  async #exists(path: string): Promise<boolean> {
    try {
      await this.api.request("GET", path);
      return true;
    } catch (error) {
      if (error instanceof ApiError && error.status === 404) return false;
      throw error;
    }
  }

  /** Remove everything that is stored in this browser for this server and user. */
  logOut(): Promise<void> {
    return this.persistence.clear();
  }
}

function absolute(url: string): string {
  return typeof location === "undefined" ? url : new URL(url || "/", location.href).href;
}

function chosenStorage(storage: TimelineStorage | false | undefined): TimelineStorage {
  if (storage) return storage;
  return storage === false || typeof indexedDB === "undefined" ? memoryStorage() : indexedDbStorage();
}
