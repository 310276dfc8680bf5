/** The state of a thread's connection, for the status line of a page. */

export interface Connection {
  /**
   * `connecting`: nothing is shown yet. `cached`: the stored copy is shown. `syncing`: the thread is being requested
   * from the server. `live`. `reconnecting`: the connection was lost. `offline`: the browser has no network. `error`:
   * there are no further attempts. `idle`: the thread does not exist yet.
   */
  state: "idle" | "connecting" | "cached" | "syncing" | "live" | "reconnecting" | "offline" | "error";
  since: number;
  /** The number of attempts to reconnect. */
  attempt: number;
  lastEventId?: string;
  /** Whether this tab holds the stream, or another tab of the browser does. */
  role: "leader" | "follower";
  /** How the stream continued after the last drop: `resumed` without a gap, or `reloaded` from a new snapshot. */
  repair?: "resumed" | "reloaded";
  /** Why nothing is stored in this browser. */
  storageProblem?: string;
}

const FIRST_DELAY = 500;
const MAX_DELAY = 15_000;

/** How long to wait before an attempt: doubling, with jitter so that clients do not all return at the same time. */
function delayBefore(attempt: number): number {
  return Math.min(FIRST_DELAY * 2 ** (attempt - 1), MAX_DELAY) * (0.5 + Math.random() / 2);
}

/** Wait before an attempt, until the network is back or the page becomes visible again. */
export function waitToRetry(attempt: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const listening = new AbortController();
    const done = () => {
      clearTimeout(timer);
      listening.abort();
      resolve();
    };
    const timer = setTimeout(done, delayBefore(attempt));
    const options = { signal: listening.signal };
    signal?.addEventListener("abort", done, options);
    if (typeof window === "undefined") return;
    window.addEventListener("online", done, options);
    document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && done(), options);
  });
}
