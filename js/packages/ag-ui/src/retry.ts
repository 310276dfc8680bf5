/** When to retry, and when to give up. */
export interface RetryPolicy {
  /** Milliseconds before the first retry. Doubles with every further one. */
  readonly firstDelay: number;
  readonly maxDelay: number;
  /** How many attempts in a row may fail. An attempt that delivers something new resets the count. */
  readonly attempts: number;
  /** Milliseconds without data after which a connection counts as lost. The server sends something at least every
   * 5 s. */
  readonly idleTimeout: number;
}

export const DEFAULT_RETRY_POLICY: RetryPolicy = {
  firstDelay: 250,
  maxDelay: 10_000,
  attempts: 10,
  idleTimeout: 45_000,
};

/** The server rejected the request, and a retry would not change that. */
export class RequestRejected extends Error {
  constructor(
    readonly response: Response,
    reason: string,
  ) {
    super(reason);
    this.name = "RequestRejected";
  }
}

/** Half of the delay is random, so that clients of the same server do not all reconnect at the same time. */
export function retryDelay(attempt: number, { firstDelay, maxDelay }: RetryPolicy): number {
  const delay = Math.min(maxDelay, firstDelay * 2 ** (attempt - 1));
  return delay / 2 + (Math.random() * delay) / 2;
}

/** Sleep, but wake up early when the machine comes back online. */
export function sleep(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const done = (): void => {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      globalThis.removeEventListener?.("online", done);
      if (signal.aborted) reject(signal.reason);
      else resolve();
    };
    const timer = setTimeout(done, milliseconds);
    signal.addEventListener("abort", done);
    globalThis.addEventListener?.("online", done);
    if (signal.aborted) done();
  });
}

const RETRYABLE_STATUSES = [408, 425, 429];

const isStream = ({ headers }: Response): boolean =>
  headers.get("content-type")?.startsWith("text/event-stream") ?? false;

/** Whether a retry may succeed. */
const isTransient = ({ status }: Response): boolean => status >= 500 || RETRYABLE_STATUSES.includes(status);

/** Return the response if it is a stream. Throws a plain error if the request should be retried, and `RequestRejected`
 * otherwise. */
export async function ensureStream(response: Response, retryable: boolean): Promise<Response> {
  if (response.ok && isStream(response)) return response;
  if (!response.ok && retryable && isTransient(response)) {
    void response.body?.cancel();
    throw new Error(`HTTP ${response.status}`);
  }
  throw new RequestRejected(response, await describeFailure(response.clone()));
}

/** The reason that the server gives, in the format of any of its protocols. */
async function describeFailure(response: Response): Promise<string> {
  if (response.ok) return `Expected an event stream, got ${response.headers.get("content-type")}`;
  const text = await response.text();
  try {
    const { detail, message, error } = JSON.parse(text) as Record<string, unknown>;
    return `HTTP ${response.status}: ${detail ?? message ?? error ?? text}`;
  } catch {
    return `HTTP ${response.status}: ${text.slice(0, 200)}`;
  }
}

export const reasonOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
