import { isRunEnd, isRunStart } from "./open-parts.js";
import { type Frame, writeFrame } from "./sse.js";
import { parseEvent } from "./stitcher.js";

export interface FollowerOptions {
  /** Open the thread's frames across all its runs, after the cursor or starting with a snapshot. */
  frames(cursor: string | undefined, signal: AbortSignal): AsyncGenerator<Frame, void>;
  /** Apply the frames of one run like those of a run that the agent started. */
  apply(run: Response): Promise<unknown>;
  /** Called when a run cannot be applied. Following then ends. */
  onError(error: unknown): void;
}

/**
 * Follows a thread across many runs.
 *
 * Each run is applied separately, so that nothing holds an old copy of the messages between runs. The agent pauses the
 * follower before each operation of its own on the thread, and resumes it where that operation ended.
 */
export class ThreadFollower {
  private controller = new AbortController();
  private loop: Promise<void> = Promise.resolve();
  private applied: Promise<unknown> = Promise.resolve();
  private run: RunResponse | undefined;
  /** Whether the follower was paused in the middle of a run and has missed the rest of it. */
  private interrupted = false;

  constructor(private readonly options: FollowerOptions) {}

  /** Continue after the cursor. Start with a snapshot if there is none, or if the rest of a run was missed. */
  resume(cursor: string | undefined): void {
    this.controller = new AbortController();
    this.loop = this.follow(this.interrupted ? undefined : cursor, this.controller.signal);
    this.interrupted = false;
  }

  /** Stop reading. Resolves once everything received so far is applied. */
  async pause(): Promise<void> {
    this.controller.abort();
    await this.loop;
    this.interrupted ||= this.run !== undefined;
    this.endRun();
    await this.applied;
  }

  private async follow(cursor: string | undefined, signal: AbortSignal): Promise<void> {
    try {
      for await (const frame of this.options.frames(cursor, signal)) this.handle(frame);
    } catch {
      // Aborted or failed: the connection's status says which.
    }
  }

  private handle(frame: Frame): void {
    const event = parseEvent(frame);
    if (isRunStart(event)) this.startRun();
    this.run?.write(frame);
    if (isRunEnd(event)) this.endRun();
  }

  private startRun(): void {
    const run = new RunResponse();
    this.run = run;
    this.applied = this.applied.then(() => this.options.apply(run.response)).catch((error) => this.fail(error));
  }

  private fail(error: unknown): void {
    this.controller.abort();
    this.options.onError(error);
  }

  private endRun(): void {
    this.run?.end();
    this.run = undefined;
  }
}

/** The frames of one run as a response. */
class RunResponse {
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
