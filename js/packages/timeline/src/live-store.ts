/** Copies of the timelines that a Threadwire server has folded. */
import type { Block, InterruptBlock } from "./blocks.js";
import { applyChange, type Change, type ChangeEvent, type Page, prependPage, replaceByPage } from "./changes.js";
import { applyLocal } from "./local-operations.js";
import type { LocalOperation, Operation } from "./operations.js";
import { setBefore, setRun, Store } from "./store.js";

/** A store that can also be fed the server's timeline: a page, then its changes. */
export class LiveStore extends Store {
  /** Apply any operation of the specification, including those that only a client has. */
  override apply(threadId: string, operation: Operation | LocalOperation): void {
    const thread = this.thread(threadId);
    const stamped = { at: Date.now(), ...operation };
    if (applyLocal(thread.state, stamped)) this.changed(thread);
    else super.apply(threadId, stamped as Operation);
  }

  receivePage(threadId: string, page: Page): void {
    const thread = this.thread(threadId);
    replaceByPage(thread.state, page);
    thread.ahead.clear();
    thread.elsewhere = page.interrupts.filter(({ id }) => !thread.state.get(id));
    setRun(thread, page.run, page.ended ?? null);
    thread.seq = page.seq;
    setBefore(thread, page);
    this.changed(thread);
  }

  /** Add the page before the first one. Returns false if it is older than the stream, and so has to be loaded again. */
  receiveEarlierPage(threadId: string, page: Page): boolean {
    const thread = this.thread(threadId);
    if (page.seq < thread.seq) return false;
    for (const { id } of page.blocks) if (!thread.state.get(id)) thread.ahead.set(id, page.seq);
    prependPage(thread.state, page);
    thread.elsewhere = thread.elsewhere.filter(({ id }) => !thread.state.get(id));
    setBefore(thread, page);
    this.changed(thread);
    return true;
  }

  /** Apply what one entry of the server's log changed. */
  receiveChanges(threadId: string, seq: number, { changes, run, ended }: ChangeEvent): void {
    const thread = this.thread(threadId);
    if (seq <= thread.seq) return;
    thread.seq = seq;
    for (const change of changes) {
      const id = change.change === "insert" ? change.block.id : "id" in change ? change.id : "";
      if (seq > (thread.ahead.get(id) ?? 0)) {
        thread.ahead.delete(id);
        applyChange(thread.state, change, thread.before === undefined);
        thread.elsewhere = followElsewhere(thread.elsewhere, id, change);
      }
    }
    const next = run !== undefined ? run : ended && ended.id === thread.run?.id ? null : thread.run;
    setRun(thread, next, ended);
    this.changed(thread);
  }

  /** Replace a block with the server's, which may be from a position that the stream has not reached yet. */
  receiveBlock(threadId: string, block: Block, seq: number): void {
    const thread = this.thread(threadId);
    const shown = thread.state.get(block.id);
    if (!shown || seq <= thread.seq) return;
    const unset = Object.keys(shown).filter((key) => !(key in block));
    thread.state.set(shown, block, unset);
    thread.ahead.set(block.id, seq);
    this.changed(thread);
  }
}

/** The open interrupts on pages that are not loaded, after a change of one of them. */
function followElsewhere(interrupts: InterruptBlock[], id: string, change: Change): InterruptBlock[] {
  if (interrupts.length === 0) return interrupts;
  if (change.change === "remove") return interrupts.filter((block) => block.id !== id);
  if (change.change !== "update") return interrupts;
  const updated = interrupts.map((block) => (block.id === id ? ({ ...block, ...change.set } as InterruptBlock) : block));
  return updated.filter((block) => !block.completed);
}
