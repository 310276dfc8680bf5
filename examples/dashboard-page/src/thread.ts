/** Which thread the page shows, and what it asks the server to do with it. */

/** Where the server is: the page is one level below it, also under a prefix. */
export const server = new URL("..", location.href).pathname.replace(/\/$/, "");

const AGENT = "dashboard";
const KEPT = "threadwire-dashboard-thread";

export interface Thread {
  readonly id: string;
  /** Resolves once the thread is there. One that was named in the address is not made. */
  readonly ready: Promise<void>;
}

/** The thread of the address, or the one this browser had last, or a new one. */
export function openThread(): Thread {
  const named = new URLSearchParams(location.search).get("thread");
  if (named !== null) return { id: named, ready: Promise.resolve() };
  const kept = localStorage.getItem(KEPT);
  const id = kept ?? crypto.randomUUID();
  localStorage.setItem(KEPT, id);
  return { id, ready: makeThread(id).then(() => (kept === null ? refresh(id) : undefined)) };
}

const makeThread = (id: string): Promise<void> => post("/threads", { thread_id: id, if_exists: "do_nothing" });

/** Have the figures computed anew by a run in the background, which nobody waits for. */
export function refresh(threadId: string, inSeconds = 0): Promise<void> {
  return post(`/threads/${encodeURIComponent(threadId)}/runs`, {
    assistant_id: AGENT,
    input: { refresh: true },
    ...(inSeconds > 0 && { after_seconds: inSeconds }),
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
