import {
  type AgentSubscriber,
  HttpAgent,
  type HttpAgentConfig,
  type HttpAgentFetchFn,
  randomUUID,
  type RunAgentInput,
  type RunAgentParameters,
  type RunAgentResult,
  runHttpRequest,
  transformHttpEventStream,
} from "@ag-ui/client";

import { Connection } from "./connection.js";
import { ThreadFollower } from "./follower.js";
import { isRunEnd, isRunStart, isSnapshot } from "./open-parts.js";
import { DEFAULT_RETRY_POLICY, reasonOf, type RetryPolicy } from "./retry.js";
import { type Frame, writeFrame } from "./sse.js";
import { parseEvent } from "./stitcher.js";
import { type Source, streamFrames, type StreamOptions, toResponse } from "./stream.js";

export interface ThreadwireAgentConfig extends HttpAgentConfig {
  /** When to retry after a lost connection, and when to give up. */
  retry?: Partial<RetryPolicy>;
}

type Events = ReturnType<HttpAgent["run"]>;

/**
 * An `HttpAgent` for a Threadwire server.
 *
 * Its streams survive dropped connections: after a drop, the stream of a run or a connect resumes after the last event.
 * A run is never posted twice. `connectAgent` loads a thread and streams its active run. `follow` streams all runs of
 * the thread, including those that other clients start.
 */
export class ThreadwireAgent extends HttpAgent {
  /** The status of the connection to the server. */
  connection: Connection;
  private retry: Partial<RetryPolicy>;
  private baseFetch: HttpAgentFetchFn;
  private detachController = new AbortController();
  private follower: ThreadFollower | undefined;
  /** Resolves once the previous follower has stopped. */
  private unfollowed: Promise<void> = Promise.resolve();
  /** Whether a run, connect or sync of this agent is in progress. */
  private busy = false;
  private cursor: string | undefined;
  /** The followed runs that are not fully applied yet, by run id. */
  private followedRuns = new Map<string, Response>();

  constructor(config: ThreadwireAgentConfig) {
    super(config);
    this.connection = new Connection();
    this.retry = config.retry ?? {};
    this.baseFetch = this.fetch;
    this.fetch = (url, init) => this.post(url, init);
  }

  override clone(): ThreadwireAgent {
    const cloned = super.clone() as ThreadwireAgent;
    cloned.connection = new Connection();
    cloned.retry = this.retry;
    cloned.baseFetch = this.baseFetch;
    cloned.detachController = new AbortController();
    cloned.follower = undefined;
    cloned.unfollowed = Promise.resolve();
    cloned.busy = false;
    cloned.cursor = undefined;
    cloned.followedRuns = new Map();
    cloned.fetch = (url, init) => cloned.post(url, init);
    return cloned;
  }

  // -- runs ------------------------------------------------------------------------------------------------------

  override runAgent(...args: Parameters<HttpAgent["runAgent"]>): Promise<RunAgentResult> {
    return this.exclusively(() => super.runAgent(...args));
  }

  override connectAgent(parameters?: RunAgentParameters, subscriber?: AgentSubscriber): Promise<RunAgentResult> {
    return this.exclusively(() => {
      this.abortController = new AbortController();
      return super.connectAgent(parameters, subscriber);
    });
  }

  /** Stop streaming the run. The run itself continues on the server. */
  override async detachActiveRun(): Promise<void> {
    const detached = super.detachActiveRun();
    this.detachController.abort();
    await detached;
  }

  /** Stop the thread's run on the server. The stream then ends with the run. */
  override abortRun(): void {
    this.stop().then(
      (stopped) => stopped || super.abortRun(),
      () => super.abortRun(),
    );
  }

  /** Stop the thread's run on the server, or only the run `runId`. Returns whether there was a run to stop. */
  async stop(runId?: string): Promise<boolean> {
    const init = this.buildInit({ method: "POST", body: JSON.stringify(runId === undefined ? {} : { runId }) });
    const response = await this.baseFetch(this.endpoint(`/stop/${encodeURIComponent(this.threadId)}`), init);
    if (!response.ok) throw new Error(`HTTP ${response.status}: ${await response.text()}`);
    const { stopped } = (await response.json()) as { stopped: boolean };
    return stopped;
  }

  // -- the thread ------------------------------------------------------------------------------------------------

  /**
   * Stream all runs of the thread, including those started by other clients, crons or API calls. Returns a function
   * that stops following. The agent can still start runs of its own.
   */
  follow(subscriber?: AgentSubscriber): () => void {
    this.unfollow();
    const follower = new ThreadFollower({
      frames: (cursor, signal) => this.threadFrames(cursor, signal),
      apply: (run) => this.applyFollowedRun(run, subscriber),
      onError: (error) => this.connection.report({ state: "error", reason: reasonOf(error) }),
    });
    this.follower = follower;
    void this.unfollowed.then(() => {
      if (this.follower === follower && !this.busy) follower.resume(undefined);
    });
    return () => {
      if (this.follower === follower) this.unfollow();
    };
  }

  private unfollow(): void {
    const { follower } = this;
    if (!follower) return;
    this.follower = undefined;
    this.unfollowed = follower.pause().then(() => this.reportClosed());
  }

  /**
   * Reload the thread's state and messages, and replace the current ones with them. Nothing is reset in between, and
   * unchanged values are not touched. A no-op while a run or connect of this agent is in progress.
   */
  async sync(): Promise<void> {
    if (this.busy) return;
    await this.exclusively(async () => {
      const input = this.prepareRunAgentInput();
      await this.applySnapshot(input, await this.readSnapshot(input));
    });
  }

  protected override connect(input: RunAgentInput): Events {
    const followed = this.followedRuns.get(input.runId);
    return toEvents(() => (followed ? Promise.resolve(followed) : this.openConnect(input)));
  }

  // -- requests --------------------------------------------------------------------------------------------------

  /** The `fetch` of `HttpAgent.run`. Posts the run once; every later attempt connects to the thread. */
  private post(url: string, init: RequestInit): Promise<Response> {
    const connect = (cursor: string | undefined, signal: AbortSignal) =>
      this.baseFetch(this.endpoint("/connect"), { ...withCursor(init, cursor), body: connectBody(init.body), signal });
    return this.openResponse(init.signal, {
      open: (cursor, attempt, signal) =>
        attempt === 0 ? this.baseFetch(url, { ...init, signal }) : connect(cursor, signal),
      until: "first end",
      idempotent: false,
    });
  }

  private openConnect(input: RunAgentInput): Promise<Response> {
    return this.openResponse(this.abortController.signal, this.connectSource(input));
  }

  private connectSource(input: RunAgentInput): Source {
    const init = this.requestInit(input);
    const body = connectBody(init.body);
    return {
      open: (cursor, _attempt, signal) =>
        this.baseFetch(this.endpoint("/connect"), { ...withCursor(init, cursor), body, signal }),
      until: "close",
      idempotent: true,
    };
  }

  private threadFrames(after: string | undefined, signal: AbortSignal): AsyncGenerator<Frame, void> {
    const url = this.endpoint(`/threads/${encodeURIComponent(this.threadId)}/events`);
    const init = this.buildInit({ method: "GET" });
    const source: Source = {
      open: (cursor, _attempt, signal) => this.baseFetch(url, { ...withCursor(init, cursor), signal }),
      cursor: after,
      until: "forever",
      idempotent: true,
    };
    // Following outlasts any outage, even a night without a network.
    return streamFrames(source, this.streamOptions(signal, Infinity));
  }

  private openResponse(aborted: AbortSignal | null | undefined, source: Source): Promise<Response> {
    const controller = this.detachController;
    const signal = aborted ? AbortSignal.any([aborted, controller.signal]) : controller.signal;
    return toResponse(streamFrames(source, this.streamOptions(signal)), () => controller.abort());
  }

  private streamOptions(signal: AbortSignal, attempts: number = DEFAULT_RETRY_POLICY.attempts): StreamOptions {
    const policy = { ...DEFAULT_RETRY_POLICY, attempts, ...this.retry };
    return { policy, connection: this.connection, signal, onCursor: (cursor) => void (this.cursor = cursor) };
  }

  /** Build another request from `requestInit`, to which a subclass may have added credentials or a cache mode. */
  private buildInit(request: RequestInit): RequestInit {
    const { signal: _signal, body: _body, ...init } = this.requestInit(this.prepareRunAgentInput());
    return { ...init, ...request };
  }

  private endpoint(path: string): string {
    const [address, query] = this.url.split("?");
    return `${address!.replace(/\/$/, "")}${path}${query === undefined ? "" : `?${query}`}`;
  }

  // -- following -------------------------------------------------------------------------------------------------

  /** Run `work` while following is paused, so that nothing else changes the messages. Then resume following after the
   * last event that `work` received. */
  private async exclusively<T>(work: () => Promise<T>): Promise<T> {
    const { follower } = this;
    this.busy = true;
    if (follower) await this.pauseFollower(follower);
    const controller = (this.detachController = new AbortController());
    this.cursor = undefined;
    try {
      return await work();
    } finally {
      this.busy = false;
      controller.abort();
      this.follower?.resume(this.cursor);
      this.reportClosed();
    }
  }

  /** A run that is being applied replaces the messages with its own copy. Messages that were added in the meantime are
   * kept. */
  private async pauseFollower(follower: ThreadFollower): Promise<void> {
    const before = this.messages;
    await follower.pause();
    const known = new Set(this.messages.map(({ id }) => id));
    this.messages.push(...before.filter(({ id }) => !known.has(id)));
  }

  private async applyFollowedRun(run: Response, subscriber: AgentSubscriber | undefined): Promise<void> {
    const runId = randomUUID();
    this.followedRuns.set(runId, run);
    try {
      await super.connectAgent({ runId }, subscriber);
    } finally {
      this.followedRuns.delete(runId);
    }
  }

  private reportClosed(): void {
    const { state } = this.connection.status;
    if (!this.follower && !this.busy && state !== "error") this.connection.report({ state: "closed" });
  }

  // -- the snapshot ----------------------------------------------------------------------------------------------

  private async readSnapshot(input: RunAgentInput): Promise<Frame[]> {
    const options = this.streamOptions(this.detachController.signal);
    const snapshot: Frame[] = [];
    for await (const frame of streamFrames(this.connectSource(input), options)) {
      const event = parseEvent(frame);
      if (event.type === "RUN_ERROR") throw new Error(String(event["message"]));
      if (isSnapshot(event)) snapshot.push(frame);
      if (event.type === "MESSAGES_SNAPSHOT" || isRunEnd(event) || !(isRunStart(event) || isSnapshot(event))) break;
    }
    return snapshot;
  }

  /** Apply the frames with the client's own reducer, but not as a run: subscribers see no run start or end. */
  private applySnapshot(input: RunAgentInput, frames: Frame[]): Promise<void> {
    const events = toEvents(async () => new Response(frames.map(writeFrame).join("")));
    const changes = this.processApplyEvents(input, this.apply(input, events, this.subscribers), this.subscribers);
    return new Promise((resolve, reject) => void changes.subscribe({ complete: resolve, error: reject }));
  }
}

const toEvents = (respond: () => Promise<Response>): Events => transformHttpEventStream(runHttpRequest(respond));

function withCursor(init: RequestInit, cursor: string | undefined): RequestInit {
  if (cursor === undefined) return init;
  const headers = new Headers(init.headers);
  headers.set("Last-Event-ID", cursor);
  return { ...init, headers };
}

/** Connecting is read-only, so the body leaves out the messages and the state. */
function connectBody(body: RequestInit["body"]): string {
  return JSON.stringify({ ...JSON.parse(String(body)), messages: [], state: {}, tools: [], context: [] });
}
