import { isEnd, isStart } from "./openings.js";
import { type Frame, writeFrame } from "./sse.js";
import { parse } from "./stitch.js";

/** What following needs of an agent. */
export interface Followed {
  /** The thread's frames over all its runs, from behind the cursor or from a snapshot. */
  frames(cursor: string | undefined, signal: AbortSignal): AsyncGenerator<Frame, void>;
  /** Apply one run's frames, as those of a run of one's own. */
  apply(run: Response): Promise<unknown>;
  /** Told when a run cannot be applied, and following therefore ends. */
  failed(error: unknown): void;
}

/**
 * A thread followed over many runs.
 *
 * Every run is applied by itself, so that between runs nobody holds an old copy of the messages. Before the agent does
 * something of its own with the thread, following is paused; afterwards it goes on where that ended.
 */
export class Following {
  private leaving = new AbortController();
  private running: Promise<void> = Promise.resolve();
  private applied: Promise<unknown> = Promise.resolve();
  private run: Run | undefined;
  /** Whether it was paused in the middle of a run, whose rest nobody will have seen. */
  private interrupted = false;

  constructor(private readonly followed: Followed) {}

  /** Go on behind the cursor; without one, or if more was missed than the cursor tells, from a snapshot. */
  resume(cursor: string | undefined): void {
    this.leaving = new AbortController();
    this.running = this.follow(this.interrupted ? undefined : cursor, this.leaving.signal);
    this.interrupted = false;
  }

  /** Resolves once everything that had come is applied. */
  async pause(): Promise<void> {
    this.leaving.abort();
    await this.running;
    this.interrupted ||= this.run !== undefined;
    this.endRun();
    await this.applied;
  }

  private async follow(cursor: string | undefined, signal: AbortSignal): Promise<void> {
    try {
      for await (const frame of this.followed.frames(cursor, signal)) this.take(frame);
    } catch {
      // Given up or left: the connection's status says which.
    }
  }

  private take(frame: Frame): void {
    const event = parse(frame);
    if (isStart(event)) this.beginRun();
    this.run?.write(frame);
    if (isEnd(event)) this.endRun();
  }

  private beginRun(): void {
    const run = new Run();
    this.run = run;
    this.applied = this.applied.then(() => this.followed.apply(run.response)).catch((error) => this.fail(error));
  }

  private fail(error: unknown): void {
    this.leaving.abort();
    this.followed.failed(error);
  }

  private endRun(): void {
    this.run?.end();
    this.run = undefined;
  }
}

/** One run's frames as a response. */
class Run {
  private readonly encoder = new TextEncoder();
  private controller!: ReadableStreamDefaultController<Uint8Array>;
  readonly response = new Response(
    new ReadableStream<Uint8Array>({ start: (controller) => void (this.controller = controller) }),
    { headers: { "content-type": "text/event-stream" } },
  );

  write(frame: Frame): void {
    this.controller.enqueue(this.encoder.encode(writeFrame(frame)));
  }

  end(): void {
    this.controller.close();
  }
}
