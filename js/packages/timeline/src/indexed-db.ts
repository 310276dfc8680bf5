/** Threads in IndexedDB: one record per block, so that a token writes one block and not the thread. */
import type { StoredThread, ThreadHeader, TimelineStorage } from "./storage.js";

const THREADS = "threads";
const BLOCKS = "blocks";

export function indexedDbStorage(name = "threadwire-timeline"): TimelineStorage {
  let opened: Promise<IDBDatabase> | undefined;
  const database = () =>
    (opened ??= open(name).catch((error: unknown) => {
      opened = undefined;
      throw error;
    }));

  /** Execute work in one transaction. Resolves when it is committed. */
  async function transact<T>(mode: IDBTransactionMode, work: (threads: IDBObjectStore, blocks: IDBObjectStore) => T) {
    const transaction = (await database()).transaction([THREADS, BLOCKS], mode, { durability: "relaxed" });
    const result = work(transaction.objectStore(THREADS), transaction.objectStore(BLOCKS));
    await new Promise<void>((resolve, reject) => {
      transaction.oncomplete = () => resolve();
      transaction.onabort = () => reject(transaction.error); // also after a request that failed
    });
    return result;
  }

  return {
    async load(scope, threadId) {
      const key = [scope, threadId];
      const read = await transact("readonly", (threads, blocks) => [threads.get(key), blocks.getAll(within(key))] as const);
      const header = read[0].result as (ThreadHeader & { scope: string }) | undefined;
      if (!header) return undefined;
      const found = new Map((read[1].result as { id: string }[]).map((block) => [block.id, block]));
      const { order, ...rest } = header;
      return { ...rest, blocks: Array.isArray(order) ? order.map((id) => found.get(id)) : undefined };
    },
    async commit(scope, { header, changed, removed }) {
      const key = [scope, header.threadId];
      await transact("readwrite", (threads, blocks) => {
        threads.put(header, key);
        for (const block of changed) blocks.put(block, [...key, block.id]);
        for (const id of removed) blocks.delete([...key, id]);
      });
    },
    async remove(scope, threadId) {
      const key = [scope, threadId];
      await transact("readwrite", (threads, blocks) => {
        threads.delete(key);
        blocks.delete(within(key));
      });
    },
    async list(scope) {
      const read = await transact("readonly", (threads) => threads.getAll(within([scope])));
      return (read.result as StoredThread[]).map(({ threadId, lastUpdatedAt }) => ({ threadId, lastUpdatedAt }));
    },
    async clear(scope) {
      await transact("readwrite", (threads, blocks) => {
        threads.delete(within([scope]));
        blocks.delete(within([scope]));
      });
    },
  };
}

/** All keys that start with this one: an array sorts after every string. */
function within(key: string[]): IDBKeyRange {
  return IDBKeyRange.bound(key, [...key, []]);
}

function open(name: string): Promise<IDBDatabase> {
  return new Promise((resolve, reject) => {
    const request = indexedDB.open(name, 1);
    request.onupgradeneeded = () => {
      request.result.createObjectStore(THREADS);
      request.result.createObjectStore(BLOCKS);
    };
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}
