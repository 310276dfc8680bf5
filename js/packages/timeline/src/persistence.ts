/** Threads stored in the browser, so that the next visit paints before the server has responded. */
import type { Block } from "./blocks.js";
import { isObject, type Json, objectOf, objectsIn, parsed } from "./json.js";
import { apply } from "./reducer.js";
import { TimelineState } from "./state.js";
import type { TimelineStorage } from "./storage.js";
import type { ThreadRecord } from "./store.js";

export const SCHEMA_VERSION = 2;
/** Where version 1 stored all threads. */
const OLD_KEY = "langgraph-stream-cache";
const TEXT_DELAY = 250;
const LARGE_TEXT = 256 * 1024;

export interface PersistenceOptions {
  /** The server and the user that the threads belong to. */
  scope?: string;
  /** Called when storing failed. It is not retried: nothing is lost except the first paint of the next visit. */
  onProblem?: (error: unknown) => void;
  /** Where version 1 stored its threads. */
  oldStorage?: Pick<Storage, "getItem" | "setItem" | "removeItem">;
}

/** Stores threads. Its methods never throw: a browser may reject every write. */
export class Persistence {
  readonly #storage: TimelineStorage;
  readonly #options: PersistenceOptions;
  readonly #scope: string;
  /** The blocks that are stored, by thread. */
  readonly #stored = new Map<string, Map<string, Block>>();
  readonly #waiting = new Map<string, () => ThreadRecord>();
  /** Threads that a newer version of this library has stored. */
  readonly #newer = new Set<string>();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #writing: Promise<void> = Promise.resolve();
  #hasFailed = false;

  constructor(storage: TimelineStorage, options: PersistenceOptions = {}) {
    this.#storage = storage;
    this.#options = options;
    this.#scope = options.scope ?? "";
  }

  /** Store a thread: soon, or immediately if more than text has changed. Resolves once it is stored. */
  saveThread(threadId: string, record: ThreadRecord | (() => ThreadRecord), isUrgent = true): Promise<void> {
    this.#waiting.set(threadId, typeof record === "function" ? record : () => record);
    if (isUrgent) return this.flush();
    this.#timer ??= setTimeout(() => void this.flush(), TEXT_DELAY);
    return this.#writing;
  }

  /** Store the pending changes. One commit at a time, in order. */
  flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#writing = this.#writing.then(async () => {
      for (const [threadId, record] of this.#waiting) {
        this.#waiting.delete(threadId);
        await this.#save(threadId, record());
      }
    });
    return this.#writing;
  }

  /** Returns a stored thread, upgraded if it is of version 1. A record that cannot be read is removed. */
  async loadThread(threadId: string): Promise<ThreadRecord | undefined> {
    try {
      const found = await this.#storage.load(this.#scope, threadId);
      if (found === undefined) return await this.#upgrade(threadId);
      if (isNewer(found)) this.#newer.add(threadId);
      else if (isRecord(found)) {
        this.#stored.set(threadId, byId(found.blocks));
        return found;
      } else await this.#storage.remove(this.#scope, threadId);
    } catch (error) {
      this.#fail(error);
    }
    return undefined;
  }

  /** Returns all stored threads. */
  async loadAll(): Promise<{ schemaVersion: 2; threads: Record<string, ThreadRecord> }> {
    const threads: Record<string, ThreadRecord> = {};
    try {
      for (const { threadId } of await this.#storage.list(this.#scope)) {
        const record = await this.loadThread(threadId);
        if (record) threads[threadId] = record;
      }
    } catch (error) {
      this.#fail(error);
    }
    return { schemaVersion: SCHEMA_VERSION, threads };
  }

  async remove(threadId: string): Promise<void> {
    this.#waiting.delete(threadId);
    this.#stored.delete(threadId);
    await this.#attempt(() => this.#storage.remove(this.#scope, threadId));
  }

  /** Remove everything, for example when the user logs out. */
  async clear(): Promise<void> {
    this.#waiting.clear();
    this.#stored.clear();
    await this.#attempt(() => this.#storage.clear(this.#scope));
  }

  async #save(threadId: string, { blocks, ...header }: ThreadRecord): Promise<void> {
    if (this.#hasFailed || this.#newer.has(threadId)) return;
    const before = this.#stored.get(threadId) ?? new Map<string, Block>();
    const after = byId(blocks);
    const commit = {
      header: { ...header, order: [...after.keys()] },
      changed: blocks.filter((block) => before.get(block.id) !== block).map(withoutLargeTexts),
      removed: [...before.keys()].filter((id) => !after.has(id)),
    };
    try {
      await this.#storage.commit(this.#scope, commit).catch(async (error: unknown) => {
        if (!(error instanceof Error) || error.name !== "QuotaExceededError") throw error;
        await this.#evict(threadId);
        await this.#storage.commit(this.#scope, commit);
      });
      this.#stored.set(threadId, after);
    } catch (error) {
      this.#fail(error);
    }
  }

  /** Remove the least recently changed threads. */
  async #evict(threadId: string): Promise<void> {
    const others = (await this.#storage.list(this.#scope)).filter((each) => each.threadId !== threadId);
    others.sort((left, right) => left.lastUpdatedAt - right.lastUpdatedAt);
    for (const each of others.slice(0, Math.ceil(others.length / 2))) {
      this.#stored.delete(each.threadId);
      await this.#storage.remove(this.#scope, each.threadId);
    }
  }

  /** Returns a thread that version 1 stored. Its old form is removed once the new one is stored. */
  async #upgrade(threadId: string): Promise<ThreadRecord | undefined> {
    const old = this.#options.oldStorage ?? (typeof localStorage === "undefined" ? undefined : localStorage);
    const cache = parsed(old?.getItem(OLD_KEY));
    const threads = isObject(cache) && cache.schemaVersion === 1 && isObject(cache.threads) ? cache.threads : {};
    if (!Object.hasOwn(threads, threadId)) return undefined;
    const record = upgraded(threadId, threads[threadId]!);
    await this.#save(threadId, record);
    if (this.#stored.has(threadId)) {
      delete threads[threadId];
      if (Object.keys(threads).length > 0) old!.setItem(OLD_KEY, JSON.stringify({ ...(cache as object), threads }));
      else old!.removeItem(OLD_KEY);
    }
    return record;
  }

  async #attempt(work: () => Promise<void>): Promise<void> {
    await work().catch((error: unknown) => this.#fail(error));
  }

  #fail(error: unknown): void {
    if (this.#hasFailed) return;
    this.#hasFailed = true;
    this.#options.onProblem?.(error);
  }
}

function byId(blocks: readonly Block[]): Map<string, Block> {
  return new Map(blocks.map((block) => [block.id, block]));
}

/** The block as it is stored: a very large text, such as a file, is left out until the server sends the block again. */
function withoutLargeTexts(block: Block): Block {
  const shortened = (_: string, value: unknown) => (typeof value === "string" && value.length > LARGE_TEXT ? "" : value);
  return JSON.parse(JSON.stringify(block, shortened)) as Block;
}

function isNewer(record: unknown): boolean {
  return isObject(record) && Number(record.schemaVersion) > SCHEMA_VERSION;
}

function isRecord(record: unknown): record is ThreadRecord {
  if (!isObject(record) || record.schemaVersion !== SCHEMA_VERSION || !Array.isArray(record.blocks)) return false;
  return record.blocks.every((block) => isObject(block) && typeof block.id === "string" && "kind" in block);
}

/** A thread of version 1: messages in order, each widget after its message or at the end. */
function upgraded(threadId: string, old: Json): ThreadRecord {
  const { messages, ui, lastUpdatedAt } = objectOf(old);
  const state = new TimelineState();
  const at = Number(lastUpdatedAt ?? 0);
  for (const message of objectsIn(messages)) {
    apply(state, { op: "message.full", message, at });
  }
  for (const each of objectsIn(ui)) apply(state, { op: "ui", ui: each, at });
  const blocks = state.blocks();
  return { schemaVersion: SCHEMA_VERSION, threadId, blocks, values: {}, seq: 0, cursor: null, lastUpdatedAt: at };
}
