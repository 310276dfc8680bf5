/** Where threads are stored in the browser. */
import type { Block } from "./blocks.js";
import { parsed } from "./json.js";
import type { ThreadRecord } from "./store.js";

/** A thread without its blocks. */
export interface ThreadHeader extends Omit<ThreadRecord, "blocks"> {
  /** The ids of the blocks. */
  order: readonly string[];
}

/** What changed since the last commit. It is stored completely or not at all. */
export interface Commit {
  header: ThreadHeader;
  changed: readonly Block[];
  removed: readonly string[];
}

export interface StoredThread {
  threadId: string;
  lastUpdatedAt: number;
}

/** Stores the threads of several scopes: servers and users that share a browser. */
export interface TimelineStorage {
  /** Returns what was stored, unchecked. */
  load(scope: string, threadId: string): Promise<unknown>;
  commit(scope: string, commit: Commit): Promise<void>;
  remove(scope: string, threadId: string): Promise<void>;
  list(scope: string): Promise<StoredThread[]>;
  clear(scope: string): Promise<void>;
}

/** Stores threads only for as long as the page is open. */
export function memoryStorage(): TimelineStorage {
  const stored = new Map<string, string>();
  return keyValueStorage({
    get: (key) => stored.get(key) ?? null,
    set: (key, text) => stored.set(key, text),
    delete: (key) => stored.delete(key),
    keys: () => [...stored.keys()],
  });
}

/** Stores each thread as one string. For small threads: every commit writes the whole thread, and space is shared. */
export function localStorageStorage(area: Storage = localStorage): TimelineStorage {
  return keyValueStorage({
    get: (key) => area.getItem(key),
    set: (key, text) => area.setItem(key, text),
    delete: (key) => area.removeItem(key),
    keys: () => Array.from({ length: area.length }, (_, at) => area.key(at) ?? ""),
  });
}

interface KeyValueStore {
  get(key: string): string | null;
  set(key: string, text: string): void;
  delete(key: string): void;
  keys(): string[];
}

function keyValueStorage(store: KeyValueStore): TimelineStorage {
  const prefixOf = (scope: string) => `threadwire-timeline:${scope}:`;
  const keysOf = (scope: string) => store.keys().filter((key) => key.startsWith(prefixOf(scope)));
  const load = (key: string): unknown => parsed(store.get(key)) ?? undefined;
  return {
    load: async (scope, threadId) => load(prefixOf(scope) + threadId),
    async commit(scope, { header: { order, ...header }, changed }) {
      const key = prefixOf(scope) + header.threadId;
      const before = (load(key) as Partial<ThreadRecord> | undefined)?.blocks ?? [];
      const blocks = new Map([...before, ...changed].map((block) => [block.id, block]));
      store.set(key, JSON.stringify({ ...header, blocks: order.map((id) => blocks.get(id)) }));
    },
    remove: async (scope, threadId) => store.delete(prefixOf(scope) + threadId),
    async list(scope) {
      return keysOf(scope).map((key) => {
        const { lastUpdatedAt = 0 } = (load(key) as Partial<ThreadRecord> | undefined) ?? {};
        return { threadId: key.slice(prefixOf(scope).length), lastUpdatedAt };
      });
    },
    clear: async (scope) => keysOf(scope).forEach((key) => store.delete(key)),
  };
}
