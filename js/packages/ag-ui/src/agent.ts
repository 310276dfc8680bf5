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
import { Following } from "./following.js";
import { isEnd, isSnapshot, isStart } from "./openings.js";
import { PATIENT, reasonOf, type RetryPolicy } from "./retry.js";
import { type Frame, writeFrame } from "./sse.js";
import { parse } from "./stitch.js";
import { framesOf, responseOf, type Sink, type Source } from "./stream.js";

export interface ThreadwireAgentConfig extends HttpAgentConfig {
  /** When to try again after a lost connection, and when to give up. */
  retry?: Partial<RetryPolicy>;
}

type Events = ReturnType<HttpAgent["run"]>;

/**
 * An `HttpAgent` for a Threadwire server.
 *
 * Its streams outlive their connections: after a drop they go on behind the last event, whether they were a run's own or
 * connected to. A run is never posted twice. `connectAgent` shows a thread as it is and then live, `follow` over all its
 * runs, whoever starts them.
 */
export class ThreadwireAgent extends HttpAgent {
  /** How it stands with the server. */
  connection: Connection;
  private retry: Partial<RetryPolicy>;
  private request: HttpAgentFetchFn;
  private leaving = new AbortController();
  private following: Following | undefined;
  private unfollowed: Promise<void> = Promise.resolve();
  /** Whether something of the agent's own is under way. */
  private busy = false;
  private cursor: string | undefined;
  /** The runs that are being followed, until they are applied. */
  private followed = new Map<string, Response>();

  constructor(config: ThreadwireAgentConfig) {
    super(config);
    this.connection = new Connection();
    this.retry = config.retry ?? {};
    this.request = this.fetch;
    this.fetch = (url, init) => this.post(url, init);
  }

  override clone(): ThreadwireAgent {
    const cloned = super.clone() as ThreadwireAgent;
    cloned.connection = new Connection();
    cloned.retry = this.retry;
    cloned.request = this.request;
    cloned.leaving = new AbortController();
    cloned.following = undefined;
    cloned.unfollowed = Promise.resolve();
    cloned.busy = false;
    cloned.cursor = undefined;
    cloned.followed = new Map();
    cloned.fetch = (url, init) => cloned.post(url, init);
    return cloned;
  }

  // -- runs ------------------------------------------------------------------------------------------------------

  override runAgent(...args: Parameters<HttpAgent["runAgent"]>): Promise<RunAgentResult> {
    return this.alone(() => super.runAgent(...args));
  }

  override connectAgent(parameters?: RunAgentParameters, subscriber?: AgentSubscriber): Promise<RunAgentResult> {
    return this.alone(() => {
      this.abortController = new AbortController();
      return super.connectAgent(parameters, subscriber);
    });
  }

  /** Stop looking at the run. It goes on: a run belongs to the server. */
  override async detachActiveRun(): Promise<void> {
    const detached = super.detachActiveRun();
    this.leaving.abort();
    await detached;
  }

  /** Stop the thread's run on the server; the stream then ends by itself. */
  override abortRun(): void {
    this.stop().then(
      (stopped) => stopped || super.abortRun(),
      () => super.abortRun(),
    );
  }

  /** Stop the thread's run on the server, or only if it is the run `runId`. Whether there was one to stop. */
  async stop(runId?: string): Promise<boolean> {
    const init = this.init({ method: "POST", body: JSON.stringify(runId === undefined ? {} : { runId }) });
    const response = await this.request(this.at(`/stop/${encodeURIComponent(this.threadId)}`), init);
    if (!response.ok) throw new Error(`HTTP ${response.status}: ${await response.text()}`);
    const { stopped } = (await response.json()) as { stopped: boolean };
    return stopped;
  }

  // -- the thread ------------------------------------------------------------------------------------------------

  /**
   * Stay with the thread over all its runs, whoever starts them: another page, a schedule, an API call. Returns how to
   * stop. The agent's own runs go on working beside it.
   */
  follow(subscriber?: AgentSubscriber): () => void {
    this.unfollow();
    const following = new Following({
      frames: (cursor, signal) => this.threadFrames(cursor, signal),
      apply: (run) => this.applyFollowed(run, subscriber),
      failed: (error) => this.connection.report({ state: "error", reason: reasonOf(error) }),
    });
    this.following = following;
    void this.unfollowed.then(() => {
      if (this.following === following && !this.busy) following.resume(undefined);
    });
    return () => {
      if (this.following === following) this.unfollow();
    };
  }

  private unfollow(): void {
    const { following } = this;
    if (!following) return;
    this.following = undefined;
    this.unfollowed = following.pause().then(() => this.close());
  }

  /**
   * Read the thread's state and messages anew, and put them in the place of what is there: nothing is reset in between,
   * and what did not change is not touched. While the agent's own stream is open there is nothing to do.
   */
  async sync(): Promise<void> {
    if (this.busy) return;
    await this.alone(async () => {
      const input = this.prepareRunAgentInput();
      await this.applyQuietly(input, await this.readSnapshot(input));
    });
  }

  protected override connect(input: RunAgentInput): Events {
    const followed = this.followed.get(input.runId);
    return eventsOf(() => (followed ? Promise.resolve(followed) : this.connected(input)));
  }

  // -- requests --------------------------------------------------------------------------------------------------

  /** The fetch of `HttpAgent.run`: the run is posted once; after that the thread is connected to. */
  private post(url: string, init: RequestInit): Promise<Response> {
    const connect = (cursor: string | undefined, signal: AbortSignal) =>
      this.request(this.at("/connect"), { ...withCursor(init, cursor), body: forConnect(init.body), signal });
    return this.respond(init.signal, {
      open: (cursor, attempt, signal) =>
        attempt === 0 ? this.request(url, { ...init, signal }) : connect(cursor, signal),
      until: "first end",
      repeatable: false,
    });
  }

  private connected(input: RunAgentInput): Promise<Response> {
    return this.respond(this.abortController.signal, this.connectSource(input));
  }

  private connectSource(input: RunAgentInput): Source {
    const init = this.requestInit(input);
    const body = forConnect(init.body);
    return {
      open: (cursor, _attempt, signal) =>
        this.request(this.at("/connect"), { ...withCursor(init, cursor), body, signal }),
      until: "close",
      repeatable: true,
    };
  }

  private threadFrames(after: string | undefined, signal: AbortSignal): AsyncGenerator<Frame, void> {
    const url = this.at(`/threads/${encodeURIComponent(this.threadId)}/events`);
    const init = this.init({ method: "GET" });
    const source: Source = {
      open: (cursor, _attempt, signal) => this.request(url, { ...withCursor(init, cursor), signal }),
      cursor: after,
      until: "forever",
      repeatable: true,
    };
    // Somebody who follows wants to see whatever comes, also after a night without a network.
    return framesOf(source, this.sink(signal, Infinity));
  }

  private respond(aborted: AbortSignal | null | undefined, source: Source): Promise<Response> {
    const leaving = this.leaving;
    const signal = aborted ? AbortSignal.any([aborted, leaving.signal]) : leaving.signal;
    return responseOf(framesOf(source, this.sink(signal)), () => leaving.abort());
  }

  private sink(signal: AbortSignal, attempts: number = PATIENT.attempts): Sink {
    const policy = { ...PATIENT, attempts, ...this.retry };
    return { policy, connection: this.connection, signal, moved: (cursor) => void (this.cursor = cursor) };
  }

  /** As `requestInit`, which a subclass may have given credentials or a cache mode, but for another request. */
  private init(request: RequestInit): RequestInit {
    const { signal: _signal, body: _body, ...init } = this.requestInit(this.prepareRunAgentInput());
    return { ...init, ...request };
  }

  private at(path: string): string {
    const [address, query] = this.url.split("?");
    return `${address!.replace(/\/$/, "")}${path}${query === undefined ? "" : `?${query}`}`;
  }

  // -- following -------------------------------------------------------------------------------------------------

  /** Do something with the thread while nobody else changes the messages; then go on following behind it. */
  private async alone<T>(work: () => Promise<T>): Promise<T> {
    const { following } = this;
    this.busy = true;
    if (following) await this.pauseFollowing(following);
    const leaving = (this.leaving = new AbortController());
    this.cursor = undefined;
    try {
      return await work();
    } finally {
      this.busy = false;
      leaving.abort();
      this.following?.resume(this.cursor);
      this.close();
    }
  }

  /** A message that was added while a followed run was still being applied must not be lost to that run's copy. */
  private async pauseFollowing(following: Following): Promise<void> {
    const mine = this.messages;
    await following.pause();
    const known = new Set(this.messages.map(({ id }) => id));
    this.messages.push(...mine.filter(({ id }) => !known.has(id)));
  }

  private async applyFollowed(run: Response, subscriber: AgentSubscriber | undefined): Promise<void> {
    const runId = randomUUID();
    this.followed.set(runId, run);
    try {
      await super.connectAgent({ runId }, subscriber);
    } finally {
      this.followed.delete(runId);
    }
  }

  private close(): void {
    const { state } = this.connection.status;
    if (!this.following && !this.busy && state !== "error") this.connection.report({ state: "closed" });
  }

  // -- the snapshot ----------------------------------------------------------------------------------------------

  private async readSnapshot(input: RunAgentInput): Promise<Frame[]> {
    const snapshot: Frame[] = [];
    for await (const frame of framesOf(this.connectSource(input), this.sink(this.leaving.signal))) {
      const event = parse(frame);
      if (event.type === "RUN_ERROR") throw new Error(String(event["message"]));
      if (isSnapshot(event)) snapshot.push(frame);
      if (event.type === "MESSAGES_SNAPSHOT" || isEnd(event) || !(isStart(event) || isSnapshot(event))) break;
    }
    return snapshot;
  }

  /** By the client's own reducer, but as no run: nobody is told that one began or ended. */
  private applyQuietly(input: RunAgentInput, frames: Frame[]): Promise<void> {
    const events = eventsOf(async () => new Response(frames.map(writeFrame).join("")));
    const changes = this.processApplyEvents(input, this.apply(input, events, this.subscribers), this.subscribers);
    return new Promise((resolve, reject) => void changes.subscribe({ complete: resolve, error: reject }));
  }
}

const eventsOf = (respond: () => Promise<Response>): Events => transformHttpEventStream(runHttpRequest(respond));

function withCursor(init: RequestInit, cursor: string | undefined): RequestInit {
  if (cursor === undefined) return init;
  const headers = new Headers(init.headers);
  headers.set("Last-Event-ID", cursor);
  return { ...init, headers };
}

/** Connecting changes nothing, so the conversation and the state need not be sent. */
function forConnect(body: RequestInit["body"]): string {
  return JSON.stringify({ ...JSON.parse(String(body)), messages: [], state: {}, tools: [], context: [] });
}
