/**
 * A timeline while it is folded: its blocks in order, and what the rules need in addition to them.
 *
 * Blocks change in place, through a few methods. `blocks` returns copies: one that has not changed since the last call
 * is the same object.
 */
import type { Block, InterruptBlock, MessageBlock, Namespace, NewBlock, UiBlock } from "./blocks.js";
import { isText, type Message, mergeChunk } from "./chunks.js";
import { type Json, type JsonObject, sameJson } from "./json.js";
import type { Stamp } from "./operations.js";

export interface TimelineOptions {
  /** Whether a message is shown while it streams, or only when it is complete. */
  partialDisplay?: "append" | "hold";
  messagesKey?: string;
  uiKey?: string;
  /** Whether the application answers this interrupt without showing it. */
  isHidden?: (value: Json) => boolean;
}

/** A run that has not ended. */
export class Run {
  attempt = 1;
  /** Whether it carried an answer to an interrupt. */
  answered = false;
  /** Whether it started from a checkpoint that was named. */
  forked = false;
  /** The branch that it left. */
  left: string | null = null;
  /** The position of its first fork to another branch; 0 if there is none. */
  forkedAt = 0;
  /** The blocks that its forks have shown again, and the branches that they were on. Only runs of a log have it. */
  declare unhidden?: Record<string, string>;
  /** Whether its attempt has had a root state. */
  hasState = false;
  /** Whether a root state of the run had a list of messages. */
  hasMessages = false;
  /** The blocks that it created. */
  blocks = new Set<string>();
  /** The interrupts that it completed. */
  completed = new Set<string>();
}

export type ListName = "messages" | "ui";

/** The ids in the lists of a namespace's state; null for an element without one. */
export interface View {
  ns: Namespace;
  messages?: (string | null)[];
  ui?: (string | null)[];
}

/** What `restore` needs in addition to blocks and values. */
export interface FoldRecord {
  views: View[];
  runs: [string | null, JsonObject][];
  open: string[];
  metas: [string, JsonObject][];
  deferred: [string, Message][];
  held: string[];
  forks: [number, number][];
}

export class TimelineState {
  readonly options: Required<TimelineOptions>;
  stamp: Stamp = {};
  /** The ids of the blocks. Nearly all changes are at the end, so it is searched from there. */
  order: string[] = [];
  values: Json = {};
  views = new Map<string, View>();
  runs = new Map<string | undefined, Run>();
  /** The position of each fork, and that of the checkpoint that it starts from. */
  forks: [number, number][] = [];
  /** Metadata of messages that have not arrived yet. */
  metas = new Map<string, JsonObject>();
  /** Messages of a root state that are behind their stream (6.2a). */
  deferred = new Map<string, Message>();
  /** Blocks that have left the root state, but may return with the rest of their step (6.3b). */
  held = new Set<string>();
  /** The ui blocks that wait for a message, by its id. */
  waiting = new Map<string, Set<string>>();
  /** The interrupt blocks that are not completed, in the order of their creation. */
  open = new Set<string>();
  generations = new Map<string, number>();
  /** The ids in the last lists of the root. */
  root: Record<ListName, ReadonlySet<string | null>> = { messages: new Set(), ui: new Set() };
  readonly #blocks = new Map<string, Block>();
  readonly #shown = new Map<string, Block>();

  constructor(options: TimelineOptions = {}) {
    this.options = { partialDisplay: "append", messagesKey: "messages", uiKey: "ui", isHidden: () => false, ...options };
  }

  // -- reading -------------------------------------------------------------------------------------------------------

  get ns(): Namespace {
    return this.stamp.ns ?? [];
  }

  get isRoot(): boolean {
    return this.ns.length === 0;
  }

  /** The run of the current operation. */
  get run(): Run {
    let run = this.runs.get(this.stamp.runId);
    if (!run) this.runs.set(this.stamp.runId, (run = new Run()));
    return run;
  }

  get(id: string): Block | undefined {
    return this.#blocks.get(id);
  }

  /** A block, unless a fork has hidden it: a hidden block belongs to another branch. */
  shown(id: string): Block | undefined {
    const block = this.get(id);
    return block?.branchId === undefined ? block : undefined;
  }

  message(id: string): MessageBlock | undefined {
    return this.shown(`m:${id}`) as MessageBlock | undefined;
  }

  widget(id: string): UiBlock | undefined {
    return this.shown(`u:${id}`) as UiBlock | undefined;
  }

  interrupt(blockId: string): InterruptBlock {
    return this.get(blockId) as InterruptBlock;
  }

  /** The last message block that matches and is not hidden. */
  lastMessage(fits: (block: MessageBlock) => boolean = () => true): MessageBlock | undefined {
    const isMeant = (block: Block) => block.kind === "message" && block.branchId === undefined && fits(block);
    const id = this.order.findLast((each) => isMeant(this.get(each)!));
    return this.get(id ?? "") as MessageBlock | undefined;
  }

  /** The last block of the block's group (7.6). */
  groupEnd(id: string): string {
    const start = this.order.lastIndexOf(id);
    let end = start + 1;
    while (this.order.slice(start, end).includes(this.#anchorAt(end))) end++;
    return this.order[end - 1]!;
  }

  #anchorAt(at: number): string {
    return this.get(this.order[at] ?? "")?.anchorId ?? "";
  }

  before(id: string): string | undefined {
    return this.order[this.order.lastIndexOf(id) - 1];
  }

  /** All blocks in order, as they are while they are folded. */
  all(): Block[] {
    return this.order.map((id) => this.get(id)!);
  }

  /** All blocks in order. A block that has not changed is the same object as before. */
  blocks(): Block[] {
    return this.order.map((id) => {
      let shown = this.#shown.get(id);
      if (!shown) this.#shown.set(id, (shown = { ...this.get(id)! }));
      return shown;
    });
  }

  // -- changing ------------------------------------------------------------------------------------------------------

  /** Place a new block after `after`, or before all others if that is undefined. */
  insert(fields: NewBlock, after: string | undefined): void {
    const { runId, seq = 0, at = 0 } = this.stamp;
    const stamped = { seq, receivedAt: at, updatedAt: at, rev: 1, ns: this.ns, ...(runId !== undefined && { runId }) };
    this.place({ ...stamped, ...fields }, after);
  }

  /** Place a block as it is. */
  place(block: Block, after: string | undefined): void {
    this.#blocks.set(block.id, block);
    this.order.splice(after === undefined ? 0 : this.order.lastIndexOf(after) + 1, 0, block.id);
    this.#index(block);
  }

  /** Set and remove fields of a block. Its revision stays if that makes no difference. */
  update<B extends Block>(block: B, fields: Partial<B>, ...unset: (keyof B)[]): void {
    const differs = Object.entries(fields).some(([key, value]) => !sameJson(block[key as keyof B], value));
    const gone = unset.filter((key) => key in block);
    if (differs || gone.length > 0) this.set(block, { ...fields, ...this.#nextRevision(block) }, gone);
  }

  /** Set and remove fields of a block, including its revision. */
  set(block: Block, fields: object, unset: readonly PropertyKey[] = []): void {
    Object.assign(block, fields);
    for (const key of unset) Reflect.deleteProperty(block, key);
    this.#shown.delete(block.id);
    this.#index(block);
  }

  /** Merge a chunk into a message. */
  merge(block: MessageBlock, chunk: Message): void {
    if (isText(chunk) && typeof block.message.content === "string") {
      this.append(block, chunk.content);
    } else {
      this.set(block, { message: mergeChunk(block.message, chunk), ...this.#nextRevision(block) });
    }
  }

  /** Append to a message whose content is text. */
  append(block: MessageBlock, text: string): void {
    if (text) this.set(block, { message: appended(block.message, text), ...this.#nextRevision(block) });
  }

  remove(id: string): void {
    const block = this.get(id);
    if (!block) return;
    this.#blocks.delete(id);
    this.#shown.delete(id);
    this.order.splice(this.order.lastIndexOf(id), 1);
    this.held.delete(id);
    if (block.kind === "interrupt") {
      this.open.delete(id);
      // Only the newest one is ever removed.
      this.generations.set(block.interruptId, this.generations.get(block.interruptId)! - 1);
    }
    this.stopWaiting(block);
    for (const run of this.runs.values()) {
      run.blocks.delete(id);
      run.completed.delete(id);
    }
  }

  stopWaiting(block: Block): void {
    if (block.kind === "ui" && block.pendingAnchor !== undefined) this.waiting.get(block.pendingAnchor)?.delete(block.id);
  }

  /** Remove a block, unless a fork has hidden it. */
  removeShown(id: string): void {
    if (this.shown(id)) this.remove(id);
  }

  /** Remove a block that a fork has hidden, because the path that is shown gets one with the same id. */
  removeHidden(id: string): void {
    if (!this.shown(id)) this.remove(id);
  }

  /** Forget everything. */
  clear(): void {
    const empty = new TimelineState(this.options);
    this.#blocks.clear();
    this.#shown.clear();
    Object.assign(this, empty, { stamp: this.stamp });
  }

  #nextRevision(block: Block): { rev: number; updatedAt: number } {
    return { rev: block.rev + 1, updatedAt: this.stamp.at ?? 0 };
  }

  /** Update the indexes for a block that is new or has changed. */
  #index(block: Block): void {
    this.runs.get(block.runId)?.blocks.add(block.id);
    if (block.kind === "interrupt") this.#indexInterrupt(block);
    else if (block.kind === "ui" && block.pendingAnchor !== undefined) {
      const waiting = this.waiting.get(block.pendingAnchor) ?? new Set();
      this.waiting.set(block.pendingAnchor, waiting.add(block.id));
    }
  }

  #indexInterrupt({ id, interruptId, completed, completedRunId }: InterruptBlock): void {
    const generation = Number(id.slice(interruptId.length + 3) || 1); // after "i:", the id and "#"
    this.generations.set(interruptId, Math.max(this.generations.get(interruptId) ?? 0, generation));
    if (!completed) {
      this.open.add(id);
      return;
    }
    this.open.delete(id);
    if (completedRunId !== undefined) this.runs.get(completedRunId)?.completed.add(id);
  }

  // -- records -------------------------------------------------------------------------------------------------------

  /** Everything that `restore` needs, except the blocks and the values. */
  record(): FoldRecord {
    return {
      views: [...this.views.values()],
      runs: Array.from(this.runs, ([runId, run]) => [
        runId ?? null,
        { ...run, blocks: [...run.blocks], completed: [...run.completed] },
      ]),
      open: [...this.open],
      metas: [...this.metas],
      deferred: [...this.deferred],
      held: [...this.held],
      forks: [...this.forks],
    };
  }

  restore(blocks: readonly Block[], values: Json, fold?: FoldRecord): void {
    this.clear();
    this.values = values;
    for (const block of blocks) this.place({ ...block }, this.order.at(-1));
    if (!fold) return;
    this.views = new Map(fold.views.map((view) => [viewKey(view.ns), { ...view }]));
    const { messages, ui } = this.views.get(viewKey([])) ?? {};
    this.root = { messages: new Set(messages), ui: new Set(ui) };
    for (const [runId, { blocks: created, completed, ...flags }] of fold.runs) {
      const sets = { blocks: new Set(created as string[]), completed: new Set(completed as string[]) };
      this.runs.set(runId ?? undefined, Object.assign(new Run(), flags, sets));
    }
    this.open = new Set(fold.open);
    this.metas = new Map(fold.metas);
    this.deferred = new Map(fold.deferred);
    this.held = new Set(fold.held);
    this.forks = [...(fold.forks ?? [])];
  }
}

export function viewKey(ns: Namespace): string {
  return JSON.stringify(ns);
}

export function appended(message: Message, text: string): Message {
  return { ...message, content: (message.content as string) + text };
}
