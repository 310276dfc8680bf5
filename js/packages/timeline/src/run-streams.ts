/** The run streams of any LangGraph server, folded here. Such a server has no timeline. */
import { ApiError } from "./api.js";
import { waitToRetry } from "./connection.js";
import { type JsonObject, listOf, objectOf } from "./json.js";
import { type LiveThread, textOf } from "./live-thread.js";
import { interruptsOf, normalizeEvent } from "./normalize.js";
import { readEvents, type ServerEvent } from "./sse.js";

const STREAM_MODE = ["values", "messages-tuple", "updates", "custom"];

export class RunStreams {
  readonly #thread: LiveThread;
  #reading = 0;

  constructor(thread: LiveThread) {
    this.#thread = thread;
  }

  /** Whether a stream is being read. Not every server can replay it. */
  get isReading(): boolean {
    return this.#reading > 0;
  }

  /** Show the thread as it is, then the runs that are active. */
  async follow(signal: AbortSignal): Promise<void> {
    const thread = this.#thread;
    thread.exists = true;
    await this.loadState();
    type Listed = { run_id: string; status: string }[];
    const runs = await thread.json<Listed>("GET", "/runs?limit=10");
    thread.setConnection({ state: "live", attempt: 0 });
    for (const { run_id: runId, status } of runs.reverse()) {
      if (!this.isReading && (status === "running" || status === "pending")) {
        const { cursor } = thread.snapshot;
        await this.join(runId, cursor?.runId === runId ? cursor.eventId : "-1");
      }
    }
    await new Promise((resolve) => signal.addEventListener("abort", resolve));
  }

  /** Start a run and read its stream. Returns its id when the server has accepted it. */
  async start(request: object, onAccepted?: (runId: string) => void): Promise<string> {
    const body = { ...request, stream_mode: STREAM_MODE, stream_resumable: true, on_disconnect: "continue" };
    const response = await this.#thread.request("POST", "/runs/stream", { body });
    const runId = /runs\/([^/?]+)/.exec(response.headers.get("content-location") ?? "")?.[1] ?? "";
    onAccepted?.(runId);
    void this.#read(response, runId).catch((error: unknown) => this.#thread.report(error));
    return runId;
  }

  /** Read the stream of a run that was started elsewhere. */
  async join(runId: string, lastEventId?: string): Promise<void> {
    await this.#read(await this.#open(runId, lastEventId), runId);
  }

  #open(runId: string, lastEventId?: string): Promise<Response> {
    const mode = STREAM_MODE.map((each) => `stream_mode=${each}`).join("&");
    const position = lastEventId === undefined ? {} : { lastEventId };
    return this.#thread.request("GET", `/runs/${runId}/stream?${mode}`, position);
  }

  /** Read the stream of a run to its end, over as many connections as that takes. */
  async #read(first: Response, runId: string): Promise<void> {
    this.#reading++;
    const thread = this.#thread;
    try {
      let response: Response | undefined = first;
      for (let attempt = 0; ; ) {
        try {
          response ??= await this.#open(runId, thread.snapshot.cursor?.eventId);
          if (attempt > 0) thread.setConnection({ state: "live", attempt: 0, repair: "resumed" });
          for await (const event of readEvents(response, thread.options.idleTimeout)) {
            attempt = 0;
            thread.broadcast({ type: "event", event });
            thread.enqueue(() => this.apply(event));
          }
          return await this.#end(runId);
        } catch (error) {
          if (error instanceof ApiError && error.status < 500) throw error;
          response = undefined;
          thread.setConnection({ state: "reconnecting", attempt: ++attempt });
          await waitToRetry(attempt);
        }
      }
    } finally {
      this.#reading--;
    }
  }

  apply(event: ServerEvent): void {
    const thread = this.#thread;
    const { store, options } = thread;
    thread.remember(event);
    const normalized = normalizeEvent(event.event, event.data);
    if (!store.applyEvent(thread.id, normalized, event.id)) return;
    for (const operation of normalized.operations) {
      if (operation.op === "custom") options.onCustomEvent?.(operation.value, thread.id);
    }
    if (event.event === "error") thread.report(new Error(textOf(event.data)));
    thread.save(normalized.type !== "message");
  }

  /** Complete what a run left open, by the state that it ended with (2.7). */
  async #end(runId: string): Promise<void> {
    const thread = this.#thread;
    const { store } = thread;
    const { values, pending, next, checkpointId } = await this.#state();
    thread.enqueue(() => {
      if (thread.snapshot.run?.id !== runId) return; // it has failed
      const ended = { op: "run.ended" as const, status: "success", runId, pending, next, checkpointId };
      if (values !== null) store.apply(thread.id, { op: "values", values, runId });
      store.apply(thread.id, ended);
      thread.broadcast({ type: "operation", operation: ended });
      thread.save(true);
    });
  }

  /** Show the state of a thread that no run is changing. */
  async loadState(): Promise<void> {
    const thread = this.#thread;
    const { store } = thread;
    const { values, pending } = await this.#state();
    thread.enqueue(() => {
      if (values !== null) store.apply(thread.id, { op: "values", values });
      store.apply(thread.id, { op: "interrupts.pending", interrupts: pending });
      thread.save(true);
    });
  }

  async newestCheckpoint(): Promise<string | null> {
    return (await this.#state()).checkpointId;
  }

  async #state() {
    const state = await this.#thread.json<JsonObject>("GET", "/state");
    const tasks = listOf(state.tasks);
    const pending = tasks.flatMap((task) => interruptsOf(objectOf(task).interrupts ?? []));
    const next = listOf(state.next).map(String);
    const { checkpoint_id: checkpointId = null } = objectOf(state.checkpoint);
    return { values: state.values ?? null, pending, next, checkpointId: checkpointId as string | null };
  }
}
