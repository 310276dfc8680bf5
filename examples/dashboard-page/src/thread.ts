/** The thread that the page shows, and the requests that change it. */

/** The path of the server: one level above the page, whatever the prefix. */
export const server = new URL("..", location.href).pathname.replace(/\/$/, "");

const AGENT = "dashboard";
const STORAGE_KEY = "threadwire-dashboard-thread";

export interface Thread {
  readonly id: string;
  /** Resolves once the thread exists. A thread given in the URL is not created. */
  readonly ready: Promise<void>;
}

/** The thread given in the URL, or the one stored in this browser, or a new one. */
export function openThread(): Thread {
  const requested = new URLSearchParams(location.search).get("thread");
  if (requested !== null) return { id: requested, ready: Promise.resolve() };
  const stored = localStorage.getItem(STORAGE_KEY);
  const id = stored ?? crypto.randomUUID();
  localStorage.setItem(STORAGE_KEY, id);
  return { id, ready: createThread(id).then(() => (stored === null ? refresh(id) : undefined)) };
}

const createThread = (id: string): Promise<void> => post("/threads", { thread_id: id, if_exists: "do_nothing" });

/** Start a background run that recomputes the figures, after `delay` seconds. Does not wait for the run. */
export function refresh(threadId: string, delay = 0): Promise<void> {
  return post(`/threads/${encodeURIComponent(threadId)}/runs`, {
    assistant_id: AGENT,
    input: { refresh: true },
    ...(delay > 0 && { after_seconds: delay }),
  });
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
