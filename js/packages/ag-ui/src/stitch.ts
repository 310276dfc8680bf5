import { isEnd, isSnapshot, isStart, opened, Openings, type WireEvent } from "./openings.js";
import type { Frame } from "./sse.js";

/**
 * Makes one stream of several connections, with nothing lost and nothing twice.
 *
 * Frames come in groups, one for each entry of the thread's log, and only the last frame of a group has an id: the
 * *cursor*. After a drop the server is given the cursor and sends
 *
 * 1. the start of the run and of whatever was open at the cursor, so that the answer is a whole stream for
 *    others. This reader is in the middle of those already, and leaves them out;
 * 2. everything after the cursor. If some frames of a group came before the drop, they come again, and are left out;
 * 3. what is new.
 *
 * If there is no cursor yet, or it is one the server no longer knows, the server sends the state and the messages as
 * they are now, and the start of whatever is open now. Both snapshots replace what there is. What this reader has open
 * and the server has not is then closed.
 */
export class Stitch {
  private readonly given = new Openings();
  /** What was open at the cursor. */
  private certain = new Openings();
  /** Given out since the cursor. */
  private uncertain: Frame[] = [];
  private phase: "flowing" | "repeating" | "rehydrating" = "flowing";
  private repeated: Frame[] = [];
  private awaited = new Set<string>();
  private reopened = new Set<string>();
  private ended = false;

  constructor(private at: string | undefined) {}

  /** The last id, to be given back to the server. */
  get cursor(): string | undefined {
    return this.at;
  }

  /** Whether the last run has come to its end. */
  get isOver(): boolean {
    return this.ended && !this.given.running;
  }

  reconnected(): void {
    this.phase = this.at === undefined ? "rehydrating" : "repeating";
    this.repeated = [...this.uncertain];
    this.awaited = this.certain.names();
    this.reopened = new Set();
  }

  /** What of this frame is new, and what has to be said before it. */
  take(frame: Frame): Frame[] {
    const event = parse(frame);
    if (this.isUnderWay(frame, event)) return [];
    if (this.phase === "repeating") {
      if (this.isKnown(frame, event)) return [];
      const stale = this.repeated.length > 0 || (frame.id === undefined && isSnapshot(event));
      this.phase = stale ? "rehydrating" : "flowing";
    }
    return this.phase === "rehydrating" ? this.rehydrate(frame, event) : [this.give(frame, event)];
  }

  /** The start of a run that has started. It has an id if the drop came before the server had begun with it. */
  private isUnderWay({ id }: Frame, event: WireEvent): boolean {
    if (!isStart(event) || !(this.given.running || this.certain.running)) return false;
    this.at = id ?? this.at;
    return true;
  }

  private isKnown(frame: Frame, event: WireEvent): boolean {
    if (frame.id !== undefined) return false;
    const name = opened(event);
    if (name !== undefined && this.awaited.delete(name)) {
      this.reopened.add(name);
      return true;
    }
    if (this.repeated[0]?.data !== frame.data) return false;
    this.repeated.shift();
    return true;
  }

  private rehydrate(frame: Frame, event: WireEvent): Frame[] {
    this.uncertain = [];
    const name = opened(event);
    if (name !== undefined) this.reopened.add(name);
    if (this.given.has(name)) return [];
    const begins = frame.id === undefined && (isStart(event) || isSnapshot(event) || name !== undefined);
    if (begins) return [this.give(frame, event)];
    this.phase = "flowing";
    const closing = this.given.closing(this.reopened).map((each) => this.give({ data: JSON.stringify(each) }, each));
    return [...closing, this.give(frame, event)];
  }

  private give(frame: Frame, event: WireEvent): Frame {
    this.given.apply(event);
    if (isEnd(event)) this.ended = true;
    if (frame.id !== undefined) {
      this.at = frame.id;
      this.certain = this.given.copy();
      this.uncertain = [];
    } else if (this.at !== undefined) {
      this.uncertain.push(frame);
    }
    return frame;
  }
}

export function parse({ data }: Frame): WireEvent {
  const event: unknown = JSON.parse(data);
  if (typeof event === "object" && event !== null && "type" in event) return event as WireEvent;
  throw new SyntaxError(`Not an AG-UI event: ${data.slice(0, 200)}`);
}
