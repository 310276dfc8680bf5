/** The timelines of a page, by thread. */
import type { Block, InterruptBlock, UiMessage } from "./blocks.js";
import type { ServerRun } from "./changes.js";
import { freeze, newest } from "./interrupts.js";
import { asList, type Json, type JsonObject } from "./json.js";
import { interruptsOf, isNotAfter, type NormalizedEvent, normalizeEvent } from "./normalize.js";
import type { Operation } from "./operations.js";
import { apply } from "./reducer.js";
import { type FoldRecord, type TimelineOptions, TimelineState } from "./state.js";
import { throttled } from "./throttle.js";

/** The last event of a run that was applied. */
export interface Cursor {
  runId: string | null;
  eventId: string;
}

/** A thread at one point in time. It never changes. */
export interface Snapshot {
  blocks: readonly Block[];
  /** The root state without messages, widgets and interrupts. */
  values: Json;
  /** The interrupts that wait for an answer, on the loaded pages or not. */
  interrupts: readonly InterruptBlock[];
  /** The active run. */
  run: ServerRun | null;
  /** The run that ended last, if this client saw it end and no other has started since. */
  ended: ServerRun | null;
  /** The position of the server's log that this describes; 0 if there is none. */
  seq: number;
  /** The first block that is loaded, if there are earlier ones. */
  before?: string;
  cursor: Cursor | null;
  lastUpdatedAt: number;
}

/** A thread as it is stored in the browser. */
export interface ThreadRecord {
  schemaVersion: 2;
  threadId: string;
  blocks: readonly Block[];
  values: Json;
  seq: number;
  before?: string;
  cursor: Cursor | null;
  fold?: FoldRecord;
  lastUpdatedAt: number;
}

export interface StoreOptions extends TimelineOptions {
  now?: () => number;
}

export interface Thread {
  state: TimelineState;
  cursors: Map<string | null, string>;
  runId: string | null;
  run: ServerRun | null;
  ended: ServerRun | null;
  seq: number;
  before?: string;
  /** The ids of blocks that are newer than the stream, with their positions. */
  ahead: Map<string, number>;
  /** Open interrupts that are not on the loaded pages. */
  elsewhere: InterruptBlock[];
  lastUpdatedAt: number;
  snapshot: Snapshot | undefined;
  listeners: Set<() => void>;
  notify: () => void;
}

/**
 * Holds the timeline of each thread. It is fed the events of run streams, and what the user sends.
 */
export class Store {
  readonly #options: StoreOptions;
  readonly #threads = new Map<string, Thread>();

  constructor(options: StoreOptions = {}) {
    this.#options = options;
  }

  // -- reading -------------------------------------------------------------------------------------------------------

  /** The thread as it is now. The same object is returned until something changes, and so is each block. */
  snapshot(threadId: string): Snapshot {
    const thread = this.thread(threadId);
    return (thread.snapshot ??= snapshotOf(thread));
  }

  /** The newest block of an interrupt. */
  interrupt(threadId: string, interruptId: string): InterruptBlock | undefined {
    const thread = this.thread(threadId);
    const isMeant = (block: InterruptBlock) => block.interruptId === interruptId;
    return newest(thread.state, interruptId) ?? thread.elsewhere.find(isMeant);
  }

  /** Call the listener after changes of a thread, at most once per animation frame. Returns a function that unsubscribes. */
  subscribe(threadId: string, listener: () => void): () => void {
    const { listeners } = this.thread(threadId);
    listeners.add(listener);
    return () => listeners.delete(listener);
  }

  // -- run streams of any server -------------------------------------------------------------------------------------

  /** Apply `[message, metadata]`, or messages, of an event `messages`, `messages/partial` or `messages/complete`. */
  applyMessage(threadId: string, payload: Json, subtype = "base"): void {
    const listed = asList(payload);
    this.applyEvent(threadId, normalizeEvent(subtype === "base" ? "messages" : `messages/${subtype}`, listed, this.#now()));
  }

  /** Apply a UI message or a removal of one, or a list of them. */
  applyUi(threadId: string, event: UiMessage | UiMessage[]): void {
    this.applyEvent(threadId, normalizeEvent("custom", event, this.#now()));
  }

  /** Apply a root state. */
  applyValues(threadId: string, values: JsonObject): void {
    this.applyEvent(threadId, normalizeEvent("values", values, this.#now()));
  }

  /** Show an interrupt, or a list of them. */
  applyInterrupt(threadId: string, interrupt: Json, receivedAt = this.#now()): void {
    this.apply(threadId, { op: "interrupts", interrupts: interruptsOf(interrupt), at: receivedAt });
  }

  /** Apply an event of a run stream. An event whose id is known is dropped (2.5). Returns whether it was applied. */
  applyEvent(threadId: string, event: NormalizedEvent, eventId?: string): boolean {
    const thread = this.thread(threadId);
    const { payload } = event;
    if (event.type === "run" && payload !== null && typeof payload === "object" && "run_id" in payload) {
      thread.runId = String(payload.run_id);
    }
    if (eventId !== undefined) {
      const last = thread.cursors.get(thread.runId);
      if (last !== undefined && isNotAfter(eventId, last)) return false;
      thread.cursors.set(thread.runId, eventId);
    }
    const run = thread.runId === null ? {} : { runId: thread.runId };
    for (const operation of event.operations) this.apply(threadId, { ...run, ...operation });
    return true;
  }

  /** Apply any operation of the specification, except those that only a client has. */
  apply(threadId: string, operation: Operation): void {
    const thread = this.thread(threadId);
    apply(thread.state, { at: this.#now(), ...operation });
    const { op, runId: id } = operation;
    if (op === "run.started" && id) setRun(thread, { id, status: "running" });
    if (op === "run.ended" && id && id === thread.run?.id) setRun(thread, null, { id, status: operation.status });
    this.changed(thread);
  }

  /**
   * Freeze the newest block of an interrupt: it is completed and shows `frozenValue`, or, if that is absent, what it
   * showed before. Returns whether that changed anything.
   */
  completeInterrupt(threadId: string, interruptId: string, frozenValue?: Json): boolean {
    const thread = this.thread(threadId);
    thread.state.stamp = { at: this.#now() };
    const frozen = frozenValue === undefined ? {} : { frozenValue: structuredClone(frozenValue) };
    const changed = freeze(thread.state, interruptId, frozen);
    if (changed) this.changed(thread);
    return changed;
  }

  // -- storing -------------------------------------------------------------------------------------------------------

  /** The thread as it is stored. */
  record(threadId: string): ThreadRecord {
    const thread = this.thread(threadId);
    const { blocks, values, seq, before, cursor, lastUpdatedAt } = this.snapshot(threadId);
    return {
      schemaVersion: 2,
      threadId,
      blocks,
      values,
      seq,
      ...(before !== undefined && { before }),
      cursor,
      // Only a timeline that is folded here needs it.
      ...(seq === 0 && { fold: thread.state.record() }),
      lastUpdatedAt,
    };
  }

  /** Show a stored thread, until the server's replaces it. */
  hydrate(threadId: string, record: ThreadRecord): void {
    const thread = this.thread(threadId);
    thread.state.restore(record.blocks, record.values, record.fold);
    if (record.cursor) {
      thread.cursors.set(record.cursor.runId, record.cursor.eventId);
      thread.runId = record.cursor.runId;
    }
    setBefore(thread, record);
    this.changed(thread, record.lastUpdatedAt);
  }

  forget(threadId: string): void {
    const thread = this.thread(threadId);
    Object.assign(thread, this.#create(), { listeners: thread.listeners, notify: thread.notify });
    delete thread.before;
    this.changed(thread);
  }

  // -- parts ---------------------------------------------------------------------------------------------------------

  #now(): number {
    return (this.#options.now ?? Date.now)();
  }

  protected thread(threadId: string): Thread {
    let thread = this.#threads.get(threadId);
    if (!thread) this.#threads.set(threadId, (thread = this.#create()));
    return thread;
  }

  #create(): Thread {
    const listeners = new Set<() => void>();
    return {
      state: new TimelineState(this.#options),
      cursors: new Map(),
      runId: null,
      run: null,
      ended: null,
      seq: 0,
      ahead: new Map(),
      elsewhere: [],
      lastUpdatedAt: 0,
      snapshot: undefined,
      listeners,
      notify: throttled(() => listeners.forEach((listener) => listener())),
    };
  }

  protected changed(thread: Thread, at = this.#now()): void {
    thread.lastUpdatedAt = at;
    thread.snapshot = undefined;
    thread.notify();
  }
}

function snapshotOf(thread: Thread): Snapshot {
  const { state, elsewhere, runId, run, ended, seq, before, lastUpdatedAt } = thread;
  const eventId = thread.cursors.get(runId);
  const cursor = eventId === undefined ? null : { runId, eventId };
  const blocks = state.blocks();
  const isOpen = (block: Block): block is InterruptBlock => block.kind === "interrupt" && !block.completed;
  const interrupts = state.open.size + elsewhere.length > 0 ? [...elsewhere, ...blocks.filter(isOpen)] : [];
  const { values } = state;
  return { blocks, values, interrupts, run, ended, seq, ...(before !== undefined && { before }), cursor, lastUpdatedAt };
}

/** Set the active run, and the run that ended last if one has. */
export function setRun(thread: Thread, run: ServerRun | null, ended: ServerRun | null = null): void {
  if (ended || run?.id !== thread.run?.id) thread.ended = ended;
  thread.run = run;
}

export function setBefore(thread: Thread, { before }: { before?: string }): void {
  if (before === undefined) delete thread.before;
  else thread.before = before;
}
