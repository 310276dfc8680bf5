/** The thread that the page shows, and the requests that change it. */

/** The path of the server: one level above the page, whatever the prefix. */
export const server = new URL("..", location.href).pathname.replace(/\/$/, "");

const AGENT = "dashboard";
const STORAGE_KEY = "threadwire-dashboard-thread";

export interface Thread {
  /** A UUID, or any name in the address of the page. */
  readonly id: string;
  /** Resolves once the thread exists. A thread given in the URL is not created. */
  readonly ready: Promise<void>;
  /** Whether this thread replaces one that was stored in this browser and has been deleted since. */
  readonly replacesDeleted: boolean;
}

/** The thread given in the URL, or the one stored in this browser, or a new one. */
export async function openThread(): Promise<Thread> {
  const requested = new URLSearchParams(location.search).get("thread");
  if (requested !== null) return { id: requested, ready: Promise.resolve(), replacesDeleted: false };
  const stored = localStorage.getItem(STORAGE_KEY);
  if (stored !== null && !(await isDeleted(stored))) {
    return { id: stored, ready: Promise.resolve(), replacesDeleted: false };
  }
  const id = crypto.randomUUID();
  localStorage.setItem(STORAGE_KEY, id);
  return { id, ready: createThread(id).then(() => refresh(id)), replacesDeleted: stored !== null };
}

/** Whether the server reports the thread as missing; false if the server cannot be reached. */
async function isDeleted(id: string): Promise<boolean> {
  const response = await fetch(`${server}/threads/${encodeURIComponent(id)}`).catch(() => undefined);
  return response?.status === 404;
}

const createThread = (id: string): Promise<void> => post("/threads", { thread_id: id, if_exists: "do_nothing" });

/** Start a background run that recomputes the figures, after `delay` seconds. Does not wait for the run. */
export async function refresh(threadId: string, delay = 0): Promise<void> {
  await post(`/threads/${await uuidOf(threadId)}/runs`, {
    assistant_id: AGENT,
    input: { refresh: true },
    ...(delay > 0 && { after_seconds: delay }),
  });
}

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
/** The namespace in which the server derives the ids of threads that clients name. */
const NAMED_THREADS = "6a0f3ee852b75d0c9a346e2c8a0d7c11";

/** The id of a thread in the LangGraph API, which accepts only UUIDs: the version 5 UUID of its name. */
async function uuidOf(name: string): Promise<string> {
  if (UUID.test(name)) return name.toLowerCase();
  const namespace = Uint8Array.from(NAMED_THREADS.match(/../g) ?? [], (byte) => parseInt(byte, 16));
  const named = new Uint8Array([...namespace, ...new TextEncoder().encode(name)]);
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-1", named)).slice(0, 16);
  hash[6] = (hash[6]! & 0x0f) | 0x50;
  hash[8] = (hash[8]! & 0x3f) | 0x80;
  const digits = [...hash].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return digits.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}

async function post(path: string, body: unknown): Promise<void> {
  const response = await fetch(`${server}${path}`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
  if (response.ok) return;
  const { detail } = (await response.json().catch(() => ({}))) as { detail?: unknown };
  throw new Error(typeof detail === "string" ? detail : `HTTP ${response.status}`);
}
