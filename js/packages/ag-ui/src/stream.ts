import type { Connection } from "./connection.js";
import { ensureStream, reasonOf, RequestRejected, retryDelay, type RetryPolicy, sleep } from "./retry.js";
import { type Frame, FrameReader, writeFrame } from "./sse.js";
import { StreamStitcher } from "./stitcher.js";

/** Where a stream comes from, and when it ends. */
export interface Source {
  /** Request the stream: all of it, or with a cursor what follows the cursor. `attempt` is 0 the first time. */
  open(cursor: string | undefined, attempt: number, signal: AbortSignal): Promise<Response>;
  readonly cursor?: string | undefined;
  /** A posted run ends with its first end event, a connect when the server closes the stream, following never. */
  readonly until: "first end" | "close" | "forever";
  /** Whether the first request may be retried after a failure. Posting a run may not: the server may have accepted
   * it. */
  readonly idempotent: boolean;
}

export interface StreamOptions {
  readonly policy: RetryPolicy;
  readonly connection: Connection;
  readonly signal: AbortSignal;
  /** Called with each new cursor. */
  onCursor?(cursor: string): void;
}

const CUT_OFF = "The stream ended before the run ended.";

/**
 * Yield the frames of a source over as many connections as it takes. Throws when retries are exhausted, the server
 * rejects the request or the signal is aborted.
 *
 * Reports the status of the connection, except `closed`: another stream may be about to replace this one.
 */
export async function* streamFrames(source: Source, options: StreamOptions): AsyncGenerator<Frame, void, undefined> {
  const stitcher = new StreamStitcher(source.cursor);
  let failures = 0;
  for (let attempt = 0; ; attempt++) {
    const startedAt = performance.now();
    const cursorBefore = stitcher.cursor;
    let reason: string;
    try {
      if (attempt === 0) options.connection.report({ state: "connecting" });
      yield* connectOnce(source, options, stitcher, attempt);
      if (isComplete(source, stitcher)) return;
      reason = CUT_OFF;
    } catch (error) {
      if (isComplete(source, stitcher)) return;
      if (options.signal.aborted || isFatal(error, source, attempt)) throw reportFailure(error, options);
      reason = reasonOf(error);
    }
    const progressed = stitcher.cursor !== cursorBefore || performance.now() - startedAt > options.policy.maxDelay;
    failures = progressed ? 1 : failures + 1;
    if (failures > options.policy.attempts) {
      throw reportFailure(new Error(`Gave up after ${failures} attempts: ${reason}`), options);
    }
    options.connection.report({ state: "reconnecting", attempt: failures, reason });
    await sleep(retryDelay(failures, options.policy), options.signal).catch((error) => {
      throw reportFailure(error, options);
    });
  }
}

async function* connectOnce(
  source: Source,
  { policy, connection, signal, onCursor }: StreamOptions,
  stitcher: StreamStitcher,
  attempt: number,
): AsyncGenerator<Frame, void> {
  const retryable = attempt > 0 || source.idempotent;
  const response = await ensureStream(await source.open(stitcher.cursor, attempt, signal), retryable);
  connection.report({ state: "connected" });
  if (attempt > 0) stitcher.reconnected();
  for await (const received of readFrames(response, policy.idleTimeout, signal)) {
    for (const frame of stitcher.push(received)) {
      yield frame;
      if (frame.id !== undefined) onCursor?.(frame.id);
    }
    if (source.until === "first end" && stitcher.isFinished) return;
  }
}

const isComplete = ({ until }: Source, stitcher: StreamStitcher): boolean => until !== "forever" && stitcher.isFinished;

/** Whether a retry is pointless (the server rejected the request, or sent an invalid event) or unsafe (a run's POST
 * failed, and the server may have accepted it). */
function isFatal(error: unknown, source: Source, attempt: number): boolean {
  if (error instanceof RequestRejected || error instanceof SyntaxError) return true;
  return attempt === 0 && !source.idempotent && !(error instanceof ConnectionLost);
}

/** A connection was established and then lost. */
class ConnectionLost extends Error {}

async function* readFrames(response: Response, idleTimeout: number, signal: AbortSignal): AsyncGenerator<Frame, void> {
  const reader = response.body!.getReader();
  const frames = new FrameReader();
  const timeoutError = new ConnectionLost(`No data received for ${idleTimeout} ms.`);
  let stopReason: unknown;
  // A cancelled reader reports `done`, so the loop below ends.
  const stop = (reason: unknown): void => {
    stopReason = reason;
    reader.cancel().catch(() => {});
  };
  const onAbort = (): void => stop(signal.reason);
  signal.addEventListener("abort", onAbort);
  if (signal.aborted) onAbort();
  try {
    for (;;) {
      const timer = setTimeout(stop, idleTimeout, timeoutError);
      const { done, value } = await reader.read().catch(throwLost).finally(() => clearTimeout(timer));
      if (stopReason !== undefined) throw stopReason;
      if (done) return;
      yield* frames.push(value);
    }
  } finally {
    signal.removeEventListener("abort", onAbort);
    reader.cancel().catch(() => {});
  }
}

function throwLost(error: unknown): never {
  throw new ConnectionLost(reasonOf(error), { cause: error });
}

/** Report the error as the connection's status, and return what to throw. An abort is not an error. */
function reportFailure(error: unknown, { connection, signal }: StreamOptions): unknown {
  if (signal.aborted) return signal.reason;
  connection.report({ state: "error", reason: reasonOf(error) });
  return error;
}

/**
 * Present the frames as the response to a single request, for a client that knows nothing about reconnecting. An error
 * response is passed on unchanged, so that the client reports it in its own way.
 */
export async function toResponse(frames: AsyncGenerator<Frame, void>, onCancel: () => void): Promise<Response> {
  const first = frames.next();
  try {
    await first;
  } catch (error) {
    if (error instanceof RequestRejected && !error.response.ok) return error.response;
    throw error;
  }
  const encoder = new TextEncoder();
  let next: typeof first | undefined = first;
  return responseFrom({
    async read() {
      const { done, value } = await (next ?? frames.next());
      next = undefined;
      return done ? { done: true } : { done: false, value: encoder.encode(writeFrame(value)) };
    },
    async cancel() {
      onCancel();
    },
  });
}

interface Reader {
  read(): Promise<{ done: true } | { done: false; value: Uint8Array }>;
  cancel(): Promise<void>;
}

/**
 * Create a response that is read through `reader`. With a real stream, the client's `cancel()` after a failed `read()`
 * would also be rejected. The client does not handle that rejection, which terminates a Node process.
 */
function responseFrom(reader: Reader): Response {
  const response = new Response(null, { headers: { "content-type": "text/event-stream" } });
  return Object.defineProperty(response, "body", { value: { getReader: () => reader } });
}
