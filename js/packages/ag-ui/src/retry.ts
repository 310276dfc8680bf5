/** When to try again, and when to stop trying. */
export interface RetryPolicy {
  /** Milliseconds before the first new attempt; doubled for each further one. */
  readonly firstDelay: number;
  readonly maxDelay: number;
  /** How many attempts in a row may fail. One that brings something new begins the count anew. */
  readonly attempts: number;
  /** Milliseconds of silence after which a connection is taken for dead. The server speaks at least every 15 s. */
  readonly silence: number;
}

export const PATIENT: RetryPolicy = { firstDelay: 250, maxDelay: 10_000, attempts: 10, silence: 45_000 };

/** The answer was no, and asking again would not change it. */
export class Refused extends Error {
  constructor(
    readonly response: Response,
    reason: string,
  ) {
    super(reason);
    this.name = "Refused";
  }
}

/** Half of the delay is random, so that pages that lost the same server do not all come back at once. */
export function delayBefore(attempt: number, { firstDelay, maxDelay }: RetryPolicy): number {
  const delay = Math.min(maxDelay, firstDelay * 2 ** (attempt - 1));
  return delay / 2 + (Math.random() * delay) / 2;
}

/** Wait, but no longer than until the machine is online again. */
export function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
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

const TRY_AGAIN = [408, 425, 429];

const isStream = ({ headers }: Response): boolean =>
  headers.get("content-type")?.startsWith("text/event-stream") ?? false;

/** Whether another attempt may be answered differently. */
const mayPass = ({ status }: Response): boolean => status >= 500 || TRY_AGAIN.includes(status);

/** The response, if it is a stream. Otherwise throws: `Refused`, unless the request is to be made again. */
export async function checked(response: Response, repeatable: boolean): Promise<Response> {
  if (response.ok && isStream(response)) return response;
  if (!response.ok && repeatable && mayPass(response)) {
    void response.body?.cancel();
    throw new Error(`HTTP ${response.status}`);
  }
  throw new Refused(response, await explain(response.clone()));
}

/** What the server says, in the shape of any of its wires. */
async function explain(response: Response): Promise<string> {
  if (response.ok) return `Not an event stream but ${response.headers.get("content-type")}`;
  const text = await response.text();
  try {
    const { detail, message, error } = JSON.parse(text) as Record<string, unknown>;
    return `HTTP ${response.status}: ${detail ?? message ?? error ?? text}`;
  } catch {
    return `HTTP ${response.status}: ${text.slice(0, 200)}`;
  }
}

export const reasonOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
