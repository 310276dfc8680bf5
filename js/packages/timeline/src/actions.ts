/** The user's actions on a thread. Each is shown before the server has it. */
import { ApiError } from "./api.js";
import type { Block, InterruptBlock } from "./blocks.js";
import type { Message } from "./chunks.js";
import type { TimelineClient } from "./client.js";
import { asList, isObject, type Json, type JsonObject } from "./json.js";
import { LiveThread, textOf } from "./live-thread.js";
import { RunStreams } from "./run-streams.js";
import { TimelineStream } from "./timeline-stream.js";

export interface SubmitOptions {
  assistantId?: string;
  config?: JsonObject;
  context?: JsonObject;
  metadata?: JsonObject;
  multitaskStrategy?: "reject" | "interrupt" | "rollback" | "enqueue";
  /** Start from this checkpoint instead of the newest one. */
  checkpointId?: string;
  /** Whether messages are shown before the server has them; true by default. */
  optimistic?: boolean;
}

export interface Responded {
  /** Whether this answer won. If not, the block shows the one that did. */
  accepted: boolean;
  runId?: string;
}

export class ThreadActions {
  protected readonly thread: LiveThread;
  protected readonly timeline: TimelineStream;
  protected readonly runs: RunStreams;

  constructor(client: TimelineClient, threadId: string) {
    this.thread = new LiveThread(client, threadId);
    this.timeline = new TimelineStream(this.thread);
    this.runs = new RunStreams(this.thread);
  }

  /** Load the blocks before the first one. Returns whether there are more. */
  loadEarlier(): Promise<boolean> {
    return this.timeline.loadEarlier();
  }

  /** Start a run with new input. Returns its id, when the server has accepted it. */
  async submit(input: Json, options: SubmitOptions = {}): Promise<string> {
    const { thread } = this;
    const { values, sent } = withIds(input, thread.options.messagesKey ?? "messages");
    if (options.optimistic !== false) for (const message of sent) thread.applyLocally({ op: "message.local", message });
    try {
      return await this.#startRun({ input: values }, options);
    } catch (error) {
      for (const { id } of sent) thread.applyLocally({ op: "message.rejected", id: id as string });
      throw thread.report(error);
    }
  }

  /** Answer an interrupt: freeze its widget, and resume the graph. */
  async respond(response: Json, answered: { interruptId: string; frozenValue?: Json }): Promise<Responded> {
    const { interruptId, ...frozen } = answered;
    this.thread.applyLocally({ op: "interrupt.submitting", id: interruptId, ...frozen });
    try {
      if ((await this.thread.source()) === "runs") return await this.#respondAll({ [interruptId]: response });
      const body = { ...frozen, resume: true, ...(response !== undefined && { response }) };
      return await this.#put(interruptId, body);
    } catch (error) {
      return this.#handleAnswerProblem(interruptId, error);
    }
  }

  /** Answer several interrupts in one run. */
  async respondAll(responses: Record<string, Json>): Promise<Responded> {
    const ids = Object.keys(responses);
    for (const id of ids) this.thread.applyLocally({ op: "interrupt.submitting", id });
    try {
      return await this.#respondAll(responses);
    } catch (error) {
      for (const id of ids) this.thread.applyLocally({ op: "interrupt.rejected", id, error: textOf(error) });
      throw this.thread.report(error);
    }
  }

  async #respondAll(responses: Record<string, Json>): Promise<Responded> {
    const answers = Object.entries(responses).map(([id, response]) => ({ id, response }));
    const [only] = answers;
    // An id that was generated here means nothing to the graph (7.12), and a breakpoint needs no answer.
    const isBare = answers.length === 1 && only!.id.startsWith("anon:");
    const isBreakpoint = answers.length === 1 && only!.id.startsWith("bp:");
    const command = isBreakpoint ? {} : { command: { resume: isBare ? only!.response : responses } };
    const runId = await this.#startRun({ input: null, ...command }, {}, (id) =>
      this.thread.applyLocally({ op: "interrupt.answered", answers, runId: id }),
    );
    return { accepted: true, runId };
  }

  /** Freeze the widget of an interrupt, without an answer to the graph. Returns whether that changed anything. */
  async completeInterrupt(interruptId: string, frozenValue?: Json): Promise<boolean> {
    const { thread } = this;
    const changed = thread.store.completeInterrupt(thread.id, interruptId, frozenValue);
    if (!changed) return false;
    const frozen = frozenValue === undefined ? {} : { frozenValue };
    thread.broadcast({ type: "operation", operation: { op: "interrupt.frozen", id: interruptId, ...frozen, at: Date.now() } });
    thread.save(true);
    if ((await thread.source()) === "timeline") {
      await this.#put(interruptId, frozen).catch(async (error: unknown) => {
        await this.timeline.loadPage();
        throw thread.report(error);
      });
    }
    return true;
  }

  /** Stop the active run; with `cancel: false`, only stop reading it. */
  async stop({ cancel = true } = {}): Promise<void> {
    const { thread } = this;
    const { run } = thread.snapshot;
    if (run && cancel) await thread.request("POST", `/runs/${run.id}/cancel?wait=false`, { body: {} });
  }

  /** Read the stream of a run that was started elsewhere. A Threadwire server's timeline shows all runs anyway. */
  async joinStream(runId: string, lastEventId?: string): Promise<void> {
    if ((await this.thread.source()) === "timeline") await this.timeline.refresh();
    else await this.runs.join(runId, lastEventId);
  }

  /** The checkpoints of the thread, newest first. */
  history(limit = 10): Promise<JsonObject[]> {
    return this.thread.json("POST", "/history", { limit });
  }

  /**
   * Start a run from an earlier checkpoint. Blocks that are not on its path are hidden, and have a `branchId`; without
   * input, a fork from that checkpoint returns to their branch.
   */
  fork(checkpointId: string, input: Json = null, options: SubmitOptions = {}): Promise<string> {
    return this.submit(input, { ...options, checkpointId });
  }

  async #put(interruptId: string, body: object): Promise<Responded> {
    const { thread } = this;
    type Put = { interrupt: Block; seq: number; runId?: string };
    const path = `/timeline/interrupts/${encodeURIComponent(interruptId)}`;
    const { interrupt, seq, runId } = await thread.json<Put>("PUT", path, body);
    thread.store.receiveBlock(thread.id, interrupt, seq);
    if (runId === undefined) return { accepted: true };
    await this.#started();
    return { accepted: true, runId };
  }

  #handleAnswerProblem(id: string, error: unknown): Responded {
    const won = error instanceof ApiError && error.status === 409 && isObject(error.body) ? error.body.interrupt : null;
    const block = won as unknown as InterruptBlock | null;
    if (block && (block.completed || "response" in block)) {
      const response = block.response === undefined ? {} : { response: block.response };
      this.thread.applyLocally({ op: "interrupt.elsewhere", id, ...response });
      return { accepted: false };
    }
    this.thread.applyLocally({ op: "interrupt.rejected", id, error: textOf(error) });
    throw this.thread.report(error);
  }

  // -- runs ----------------------------------------------------------------------------------------------------------

  #startRun(body: object, options: SubmitOptions, onAccepted?: (runId: string) => void): Promise<string> {
    const { thread } = this;
    return thread.starting(async () => {
      await this.#create();
      const request = { ...this.#runRequest(options), ...body };
      if ((await thread.source()) === "runs") {
        const left = options.checkpointId === undefined ? null : await this.runs.newestCheckpoint();
        return this.runs.start(request, (runId) => {
          if (left !== null && left !== options.checkpointId) {
            thread.applyLocally({ op: "run.forked", runId, branchId: left });
          }
          onAccepted?.(runId);
        });
      }
      const run = await thread.json<{ run_id: string }>("POST", "/runs", request);
      onAccepted?.(run.run_id);
      await this.#started();
      return run.run_id;
    });
  }

  async #started(): Promise<void> {
    this.thread.broadcast({ type: "hello" });
    await this.timeline.refresh();
  }

  #runRequest(options: SubmitOptions): object {
    const assistantId = options.assistantId ?? this.thread.options.assistantId;
    if (assistantId === undefined) throw new Error("assistantId: required");
    const { config, context, metadata, multitaskStrategy, checkpointId } = options;
    return {
      assistant_id: assistantId,
      ...(config && { config }),
      ...(context && { context }),
      ...(metadata && { metadata }),
      ...(multitaskStrategy && { multitask_strategy: multitaskStrategy }),
      ...(checkpointId && { checkpoint_id: checkpointId }),
      stream_subgraphs: true,
    };
  }

  /** Create the thread, unless it is known to exist. */
  async #create(): Promise<void> {
    const { thread } = this;
    if (thread.exists) return;
    await thread.client.api.request("POST", "/threads", { body: { thread_id: thread.id, if_exists: "do_nothing" } });
    await thread.source();
    thread.exists = true;
    thread.touch();
  }
}

/** The input with an id for each message, and the messages that the user sends. */
function withIds(input: Json, key: string): { values: Json; sent: Message[] } {
  if (!isObject(input) || input[key] === undefined) return { values: input, sent: [] };
  const given = input[key];
  const listed = asList(given).map((message): Json => {
    if (typeof message === "string") return { type: "human", content: message, id: crypto.randomUUID() };
    return isObject(message) && !message.id ? { ...message, id: crypto.randomUUID() } : message;
  });
  const isSent = (message: Json): message is Message => isObject(message) && (message.type ?? message.role) !== "remove";
  const sent = listed.filter(isSent).map((message) => ({ type: "human", ...message }));
  return { values: { ...input, [key]: listed }, sent };
}
