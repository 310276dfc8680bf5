import { isRunEnd, isRunStart, isSnapshot, openedPart, OpenParts, type WireEvent } from "./open-parts.js";
import type { Frame } from "./sse.js";

/**
 * Joins the frames of several connections into one stream, without losses or duplicates.
 *
 * Frames come in groups, one for each entry of the thread's log. Only the last frame of a group has an id, the
 * *cursor*. After a drop, the client sends the cursor and the server responds with
 *
 * 1. the start of the run and of every part that was open at the cursor, so that the response is a complete stream for
 *    other readers. This reader has those already and drops them;
 * 2. everything after the cursor. Frames of a group that arrived before the drop are repeated, and dropped too;
 * 3. new frames.
 *
 * Without a cursor, or with one that the server no longer knows, the server sends the current state and messages, and
 * the start of every part that is open now. Both snapshots replace what the reader has. Parts that are open here and no
 * longer open on the server are then closed.
 */
export class StreamStitcher {
  /** What is open after all frames delivered so far. */
  private readonly open = new OpenParts();
  /** What was open at the cursor. */
  private openAtCursor = new OpenParts();
  /** The frames delivered since the cursor. */
  private sinceCursor: Frame[] = [];
  private phase: "live" | "replaying" | "rehydrating" = "live";
  private expectedRepeats: Frame[] = [];
  private expectedReopens = new Set<string>();
  private reopened = new Set<string>();
  private ended = false;

  constructor(private lastId: string | undefined) {}

  /** The last id, to send to the server when reconnecting. */
  get cursor(): string | undefined {
    return this.lastId;
  }

  /** Whether the last run has ended. */
  get isFinished(): boolean {
    return this.ended && !this.open.running;
  }

  reconnected(): void {
    this.phase = this.lastId === undefined ? "rehydrating" : "replaying";
    this.expectedRepeats = [...this.sinceCursor];
    this.expectedReopens = this.openAtCursor.keys();
    this.reopened = new Set();
  }

  /** Return the frames to deliver: the frame itself if it is new, after any frames that must precede it. */
  push(frame: Frame): Frame[] {
    const event = parseEvent(frame);
    if (this.isDuplicateStart(frame, event)) return [];
    if (this.phase === "replaying") {
      if (this.isRepeat(frame, event)) return [];
      const stale = this.expectedRepeats.length > 0 || (frame.id === undefined && isSnapshot(event));
      this.phase = stale ? "rehydrating" : "live";
    }
    return this.phase === "rehydrating" ? this.rehydrate(frame, event) : [this.deliver(frame, event)];
  }

  /** Whether the frame starts a run that has started already. It has an id if the connection dropped before the server
   * started the run. */
  private isDuplicateStart({ id }: Frame, event: WireEvent): boolean {
    if (!isRunStart(event) || !(this.open.running || this.openAtCursor.running)) return false;
    this.lastId = id ?? this.lastId;
    return true;
  }

  private isRepeat(frame: Frame, event: WireEvent): boolean {
    if (frame.id !== undefined) return false;
    const key = openedPart(event);
    if (key !== undefined && this.expectedReopens.delete(key)) {
      this.reopened.add(key);
      return true;
    }
    if (this.expectedRepeats[0]?.data !== frame.data) return false;
    this.expectedRepeats.shift();
    return true;
  }

  private rehydrate(frame: Frame, event: WireEvent): Frame[] {
    this.sinceCursor = [];
    const key = openedPart(event);
    if (key !== undefined) this.reopened.add(key);
    if (this.open.has(key)) return [];
    const isPreamble = frame.id === undefined && (isRunStart(event) || isSnapshot(event) || key !== undefined);
    if (isPreamble) return [this.deliver(frame, event)];
    this.phase = "live";
    const closing = this.open
      .closingEvents(this.reopened)
      .map((each) => this.deliver({ data: JSON.stringify(each) }, each));
    return [...closing, this.deliver(frame, event)];
  }

  private deliver(frame: Frame, event: WireEvent): Frame {
    this.open.apply(event);
    if (isRunEnd(event)) this.ended = true;
    if (frame.id !== undefined) {
      this.lastId = frame.id;
      this.openAtCursor = this.open.copy();
      this.sinceCursor = [];
    } else if (this.lastId !== undefined) {
      this.sinceCursor.push(frame);
    }
    return frame;
  }
}

export function parseEvent({ data }: Frame): WireEvent {
  const event: unknown = JSON.parse(data);
  if (typeof event === "object" && event !== null && "type" in event) return event as WireEvent;
  throw new SyntaxError(`Not an AG-UI event: ${data.slice(0, 200)}`);
}
