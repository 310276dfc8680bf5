/** One client per server and set of options, shared by all components of a page. */
import type { TimelineStorage } from "@threadwire/timeline";
import { type ClientOptions, TimelineClient } from "@threadwire/timeline/live";

const clients = new Map<string, TimelineClient>();
const storages = new Map<TimelineStorage, number>();

/** The client with these options. On a server, each render has its own. */
export function clientFor(options: ClientOptions): TimelineClient {
  if (typeof window === "undefined") return new TimelineClient({ ...options, storage: false });
  const key = keyOf(options);
  let client = clients.get(key);
  if (!client) clients.set(key, (client = new TimelineClient(options)));
  return client;
}

/** What distinguishes clients. Headers and callbacks may change from one render to the next. */
export function keyOf(options: ClientOptions): string {
  const { apiUrl, assistantId, principal, source, follow, pageSize, storage } = options;
  const { partialDisplay, messagesKey, uiKey } = options;
  const stored = storage ? numberOf(storage) : storage;
  const server = [apiUrl, assistantId, principal, source, follow, pageSize, stored];
  return JSON.stringify([...server, partialDisplay, messagesKey, uiKey]);
}

function numberOf(storage: TimelineStorage): number {
  if (!storages.has(storage)) storages.set(storage, storages.size);
  return storages.get(storage)!;
}
