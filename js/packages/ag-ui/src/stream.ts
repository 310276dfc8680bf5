import type { Connection } from "./connection.js";
import { checked, delayBefore, pause, reasonOf, Refused, type RetryPolicy } from "./retry.js";
import { type Frame, FrameReader, writeFrame } from "./sse.js";
import { Stitch } from "./stitch.js";

/** Where a stream comes from, and when it is over. */
export interface Source {
  /** Ask for the stream; with a cursor, for what follows it. `attempt` is 0 the first time. */
  open(cursor: string | undefined, attempt: number, signal: AbortSignal): Promise<Response>;
  readonly cursor?: string | undefined;
  /** A run that was posted is over with its first end; what was connected to, when the server closes; what is followed,
   * never. */
  readonly until: "first end" | "close" | "forever";
  /** Whether a first request that failed may be made again. That of a run may not: it could have arrived. */
  readonly repeatable: boolean;
}

export interface Sink {
  readonly policy: RetryPolicy;
  readonly connection: Connection;
  readonly signal: AbortSignal;
  /** Told of each new cursor. */
  moved?(cursor: string): void;
}

const CUT_OFF = "The stream ended before the run did.";

/**
 * The frames of a source over as many connections as it takes. Throws when it is given up, refused or aborted.
 *
 * Says of the connection how it stands, but not that it is closed: another stream may be about to take its place.
 */
export async function* framesOf(source: Source, sink: Sink): AsyncGenerator<Frame, void, undefined> {
  const stitch = new Stitch(source.cursor);
  let failures = 0;
  for (let attempt = 0; ; attempt++) {
    const began = performance.now();
    const before = stitch.cursor;
    let reason: string;
    try {
      if (attempt === 0) sink.connection.report({ state: "connecting" });
      yield* connectOnce(source, sink, stitch, attempt);
      if (isComplete(source, stitch)) return;
      reason = CUT_OFF;
    } catch (error) {
      if (isComplete(source, stitch)) return;
      if (sink.signal.aborted || isFinal(error, source, attempt)) throw fail(error, sink);
      reason = reasonOf(error);
    }
    const progressed = stitch.cursor !== before || performance.now() - began > sink.policy.maxDelay;
    failures = progressed ? 1 : failures + 1;
    if (failures > sink.policy.attempts) throw fail(new Error(`Gave up after ${failures} attempts: ${reason}`), sink);
    sink.connection.report({ state: "reconnecting", attempt: failures, reason });
    await pause(delayBefore(failures, sink.policy), sink.signal).catch((error) => {
      throw fail(error, sink);
    });
  }
}

async function* connectOnce(source: Source, sink: Sink, stitch: Stitch, attempt: number): AsyncGenerator<Frame, void> {
  const repeatable = attempt > 0 || source.repeatable;
  const response = await checked(await source.open(stitch.cursor, attempt, sink.signal), repeatable);
  sink.connection.report({ state: "connected" });
  if (attempt > 0) stitch.reconnected();
  for await (const frame of read(response, sink.policy.silence, sink.signal)) {
    for (const fresh of stitch.take(frame)) {
      yield fresh;
      if (fresh.id !== undefined) sink.moved?.(fresh.id);
    }
    if (source.until === "first end" && stitch.isOver) return;
  }
}

const isComplete = ({ until }: Source, stitch: Stitch): boolean => until !== "forever" && stitch.isOver;

/** What no new attempt would mend: a no, an event that is none, and a run of which nobody knows whether it arrived. */
function isFinal(error: unknown, source: Source, attempt: number): boolean {
  return error instanceof Refused || error instanceof SyntaxError || (attempt === 0 && !source.repeatable && !isLoss(error));
}

/** A connection that was made and then lost. */
class Lost extends Error {}

const isLoss = (error: unknown): boolean => error instanceof Lost;

async function* read(response: Response, silence: number, signal: AbortSignal): AsyncGenerator<Frame, void> {
  const reader = response.body!.getReader();
  const frames = new FrameReader();
  const dead = new Lost(`Nothing was heard for ${silence} ms.`);
  let cut: unknown;
  // A cancelled reader has nothing more to read, so the loop below ends.
  const cutOff = (reason: unknown): void => {
    cut = reason;
    reader.cancel().catch(() => {});
  };
  const leave = (): void => cutOff(signal.reason);
  signal.addEventListener("abort", leave);
  if (signal.aborted) leave();
  try {
    for (;;) {
      const timer = setTimeout(cutOff, silence, dead);
      const { done, value } = await reader.read().catch(lose).finally(() => clearTimeout(timer));
      if (cut !== undefined) throw cut;
      if (done) return;
      yield* frames.push(value);
    }
  } finally {
    signal.removeEventListener("abort", leave);
    reader.cancel().catch(() => {});
  }
}

function lose(error: unknown): never {
  throw new Lost(reasonOf(error), { cause: error });
}

/** Whoever aborts has left; that is no error. */
function fail(error: unknown, { connection, signal }: Sink): unknown {
  if (signal.aborted) return signal.reason;
  connection.report({ state: "error", reason: reasonOf(error) });
  return error;
}

/**
 * The frames as the answer to one request, for a client that knows nothing of all this. A refusal is handed on as it
 * came, so that the client reports it in its own way.
 */
export async function responseOf(frames: AsyncGenerator<Frame, void>, leave: () => void): Promise<Response> {
  const first = frames.next();
  try {
    await first;
  } catch (error) {
    if (error instanceof Refused && !error.response.ok) return error.response;
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
      leave();
    },
  });
}

interface Reader {
  read(): Promise<{ done: true } | { done: false; value: Uint8Array }>;
  cancel(): Promise<void>;
}

/**
 * A response read by `reader`. With a real stream, the client's `cancel()` after a failed `read()` would be rejected
 * too, and the client does not catch that: in Node it ends the process.
 */
function responseFrom(reader: Reader): Response {
  const response = new Response(null, { headers: { "content-type": "text/event-stream" } });
  return Object.defineProperty(response, "body", { value: { getReader: () => reader } });
}
