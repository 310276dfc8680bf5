import { EventType, randomUUID, type RunAgentInput } from "@ag-ui/client";
import { LangGraphAgent as StockLangGraphAgent, type ProcessedEvents, type SchemaKeys } from "@ag-ui/langgraph";
import { Observable, Subscriber } from "rxjs";

import { OpenParts } from "./open-parts.js";

export type { LangGraphAgentConfig } from "@ag-ui/langgraph";
export { type ConnectableAgent, type ConnectRequest, connectThroughAgents, type Runner } from "./runner.js";

type RunInput = Parameters<StockLangGraphAgent["runAgentStream"]>[0];
type StreamedRun = Parameters<StockLangGraphAgent["handleStreamEvents"]>[0];
type StreamMode = NonNullable<Parameters<StockLangGraphAgent["handleStreamEvents"]>[4]>;
type Chunk = { id?: string; event: string; data: unknown };

const STREAM_MODES = ["events", "values", "updates", "messages-tuple"] satisfies StreamMode;

/** The position in the stream of a run that the agent has reached. */
interface Position {
  readonly threadId: string;
  readonly runId: string;
  readonly eventId: string;
}

/**
 * AG-UI's `LangGraphAgent` with `connect`, for any LangGraph API server.
 *
 * `connectAgent` shows the thread as it is. If a run is pending or running, it attaches to that run, whichever client
 * started it, and streams the rest through the agent's own translation. Disconnecting never cancels a run.
 */
export class LangGraphAgent extends StockLangGraphAgent {
  private position: Position | undefined;

  /** The id of the last event of the stream that the agent has read. Pass it to another agent to resume there. */
  get lastEventId(): string | undefined {
    return this.position?.eventId;
  }

  override connect(input: RunAgentInput): Observable<ProcessedEvents> {
    return new Observable((subscriber) => {
      const disconnected = new AbortController();
      void this.connectStream(input, new RunBoundary(subscriber), disconnected.signal);
      return () => disconnected.abort();
    });
  }

  /** A run outlives its client, so that clients can connect to it, and its stream can be replayed. */
  override runAgentStream(input: RunInput, subscriber: Subscriber<ProcessedEvents>): Promise<void> {
    const defaults = { onDisconnect: "continue", streamResumable: true } as const;
    return super.runAgentStream({ ...input, forwardedProps: { ...defaults, ...input.forwardedProps } }, subscriber);
  }

  /** If the schemas cannot be read, nothing is filtered. The stock agent would drop everything but the messages. */
  override async getSchemaKeys(): Promise<SchemaKeys> {
    const keys = await super.getSchemaKeys();
    const isFallback = keys?.output === this.constantSchemaKeys;
    return keys && isFallback ? { ...keys, input: null, output: null } : keys;
  }

  // -- connecting ------------------------------------------------------------------------------------------------

  private async connectStream(input: RunAgentInput, boundary: RunBoundary, signal: AbortSignal): Promise<void> {
    try {
      const threadId = threadIdOf(input);
      const runId = await this.activeRunOf(threadId, signal);
      const thread = { ...input, threadId, runId: runId ?? randomUUID() };
      if (runId === undefined) return boundary.finish(await this.rehydrate(thread));
      await this.attach(thread, boundary, signal);
    } catch (error) {
      if (!signal.aborted) boundary.fail(error);
    }
  }

  /** The run to attach to: the running one, or else the one that was queued last. */
  private async activeRunOf(threadId: string, signal: AbortSignal): Promise<string | undefined> {
    for (const status of ["running", "pending"] as const) {
      const [run] = await this.client.runs.list(threadId, { status, limit: 1, signal });
      if (run) return run.run_id;
    }
    return undefined;
  }

  private async attach(input: RunAgentInput, boundary: RunBoundary, signal: AbortSignal): Promise<void> {
    const { threadId, runId } = input;
    const lastEventId = this.resumePosition(input);
    // A client that resumes holds the start of a message that the server has not committed. A snapshot would remove it.
    const isResuming = lastEventId !== undefined;
    for (const event of await this.rehydrate(input)) {
      if (event.type === EventType.RUN_STARTED || event.type === EventType.STATE_SNAPSHOT) boundary.next(event);
      if (event.type === EventType.MESSAGES_SNAPSHOT && !isResuming) boundary.next(event);
    }
    const options = { signal, cancelOnDisconnect: false, streamMode: STREAM_MODES };
    const chunks = this.client.runs.joinStream(threadId, runId, isResuming ? { ...options, lastEventId } : options);
    // For `abortRun`, which stops the run on the server.
    this.activeRun = { id: runId, threadId, serverRunIdKnown: true };
    let end: ProcessedEvents | undefined;
    try {
      await this.translate(input, this.tracked(chunks, threadId, runId), (event) => {
        if (event.type === EventType.RUN_FINISHED) end = event;
        else boundary.next(event);
      });
    } finally {
      delete this.activeRun;
    }
    if (end) boundary.finish([(await this.failureOf(threadId, runId)) ?? end]);
    else boundary.complete();
  }

  /** Servers may end the stream of a failed run without an error event. */
  private async failureOf(threadId: string, runId: string): Promise<ProcessedEvents | undefined> {
    const { status } = await this.client.runs.get(threadId, runId);
    if (status !== "error" && status !== "timeout") return undefined;
    const { tasks } = await this.client.threads.getState(threadId);
    const reason = tasks.map(({ error }) => error).find((error) => error);
    return { type: EventType.RUN_ERROR, message: reason ?? `The run ended with the status ${status}`, code: status };
  }

  /** The thread as it is, as the events of a run that consists of nothing else. */
  private async rehydrate(input: RunAgentInput): Promise<ProcessedEvents[]> {
    const events: ProcessedEvents[] = [];
    await this.translate(input, noChunks(), (event) => void events.push(event));
    return events;
  }

  /** Translate a stream with the agent's own pipeline, in a copy of the agent, so that no other run is affected. */
  private async translate(
    input: RunAgentInput,
    chunks: AsyncGenerator<Chunk, void>,
    emit: (event: ProcessedEvents) => void,
  ): Promise<void> {
    const translator: StockLangGraphAgent = this.clone();
    const { threadId, runId } = input;
    // Without schema keys, the whole state is shown.
    translator.activeRun = { id: runId, threadId, serverRunIdKnown: true, usage: [] };
    const state = await this.client.threads.getState(threadId);
    const stream = { streamResponse: chunks, state } as unknown as StreamedRun;
    await new Promise<void>((resolve, reject) => {
      const translated = new Subscriber<ProcessedEvents>({ next: emit, complete: resolve, error: reject });
      translator.handleStreamEvents(stream, threadId, translated, input, STREAM_MODES).catch(reject);
    });
  }

  private async *tracked(
    chunks: AsyncGenerator<Chunk, void>,
    threadId: string,
    runId: string,
  ): AsyncGenerator<Chunk, void> {
    for await (const chunk of chunks) {
      yield chunk;
      if (chunk.id !== undefined) this.position = { threadId, runId, eventId: chunk.id };
    }
  }

  /**
   * The event to resume after: from the request, in any way that `Last-Event-ID` can reach an agent, or else the
   * agent's own position in the same run.
   */
  private resumePosition({ threadId, runId, ...input }: RunAgentInput): string | undefined {
    const { lastSeenEventId } = input as { lastSeenEventId?: unknown };
    const properties = (input.forwardedProps ?? {}) as { lastEventId?: unknown };
    const { position } = this;
    const own = position?.threadId === threadId && position.runId === runId ? position.eventId : undefined;
    const requested = lastSeenEventId ?? properties.lastEventId ?? lastEventIdHeader(this.headers);
    return requested === undefined || requested === null ? own : String(requested);
  }
}

/**
 * Passes on the events of one run, so that its boundaries are valid whatever the translation emits: one start, nothing
 * after the end, and nothing left open at the end.
 */
class RunBoundary {
  private readonly open = new OpenParts();
  private started = false;
  private ended = false;

  constructor(private readonly subscriber: Subscriber<ProcessedEvents>) {}

  next(event: ProcessedEvents): void {
    const isStart = event.type === EventType.RUN_STARTED;
    if (this.ended || (isStart && this.started)) return;
    if (isStart) this.started = true;
    if (event.type === EventType.RUN_FINISHED) this.closeParts();
    if (event.type === EventType.RUN_FINISHED || event.type === EventType.RUN_ERROR) this.ended = true;
    this.open.apply({ ...event });
    this.subscriber.next(event);
  }

  finish(events: ProcessedEvents[]): void {
    for (const event of events) this.next(event);
    this.complete();
  }

  complete(): void {
    this.subscriber.complete();
  }

  /** End the stream with the reason, and the HTTP status of the server if it responded. */
  fail(error: unknown): void {
    this.next({ type: EventType.RUN_ERROR, message: messageOf(error), code: codeOf(error) });
    this.complete();
  }

  private closeParts(): void {
    for (const event of this.open.closingEvents(new Set())) this.subscriber.next(event as unknown as ProcessedEvents);
  }
}

async function* noChunks(): AsyncGenerator<Chunk, void> {}

/** A request that cannot be sent: it has no thread. */
class MissingThread extends Error {
  readonly status = 422;

  constructor() {
    super("threadId is required");
  }
}

/** The thread of the request. LangGraph's own clients put it into the config. */
function threadIdOf(input: RunAgentInput): string {
  const { config } = input as { config?: { configurable?: { thread_id?: unknown } } };
  const threadId: unknown = input.threadId || config?.configurable?.thread_id;
  if (typeof threadId !== "string" || threadId === "") throw new MissingThread();
  return threadId;
}

/** CopilotKit's runtime forwards only headers that start with `x-`. */
function lastEventIdHeader(headers: Record<string, string>): string | undefined {
  const names = new Set(["last-event-id", "x-last-event-id"]);
  return Object.entries(headers).find(([name]) => names.has(name.toLowerCase()))?.[1];
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** The HTTP status of a response, or `UNREACHABLE` if there was none. */
function codeOf(error: unknown): string {
  const { status } = Object(error) as { status?: unknown };
  return typeof status === "number" ? String(status) : "UNREACHABLE";
}
