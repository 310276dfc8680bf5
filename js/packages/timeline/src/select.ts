/** The timeline as a view draws it. */
import type { Block, InterruptBlock, MessageBlock, UiBlock } from "./blocks.js";
import type { Message } from "./chunks.js";
import { isObject, type Json, type JsonObject, objectOf } from "./json.js";

/** What a component draws: which one, with which props. */
export interface WidgetNode {
  /** The name of the widget. */
  type: string;
  props: Json;
  meta: JsonObject;
}

export interface InterruptNode extends WidgetNode {
  readOnly: boolean;
  interruptId: string;
  response?: Json;
}

export type TimelineItem =
  | { kind: "message"; id: string; block: MessageBlock; node: Message }
  | { kind: "ui"; id: string; block: UiBlock; node: WidgetNode }
  | { kind: "interrupt"; id: string; block: InterruptBlock; node: InterruptNode };

export interface SelectOptions {
  /** Also return messages that are held back until complete, and interrupts that the application answers itself. */
  includeHidden?: boolean;
  /** Also return messages that a failed attempt left behind. */
  includeTransient?: boolean;
  /** Also return the blocks of other branches, which a fork has hidden. */
  includeBranches?: boolean;
  /** Whether blocks of subgraphs are returned at their position, or not at all. */
  subgraphs?: "inline" | "hide";
  kinds?: readonly Block["kind"][];
}

const items = new WeakMap<Block, TimelineItem>();

/** The blocks to draw, in order. An item is the same object as long as its block has not changed. */
export function selectTimeline(snapshot: { blocks: readonly Block[] }, options: SelectOptions = {}): TimelineItem[] {
  return snapshot.blocks.filter((block) => isSelected(block, options)).map(itemOf);
}

function isSelected(block: Block, options: SelectOptions): boolean {
  const { includeHidden = false, includeTransient = false, includeBranches, subgraphs = "inline", kinds } = options;
  if ((kinds && !kinds.includes(block.kind)) || (block.branchId !== undefined && !includeBranches)) return false;
  if (block.kind === "message" && ((!block.visible && !includeHidden) || (block.transient && !includeTransient))) {
    return false;
  }
  if (block.kind === "interrupt") return !block.hidden || includeHidden;
  return subgraphs === "inline" || block.ns.length === 0;
}

function itemOf(block: Block): TimelineItem {
  let item = items.get(block);
  if (!item) items.set(block, (item = createItem(block)));
  return item;
}

function createItem(block: Block): TimelineItem {
  const { id } = block;
  if (block.kind === "message") return { kind: "message", id, block, node: block.message };
  if (block.kind === "ui") {
    const { name, props, metadata } = block.ui;
    const node = { type: String(name ?? "ui"), props: props ?? {}, meta: objectOf(metadata) };
    return { kind: "ui", id, block, node };
  }
  const { interruptId, response } = block;
  const node = {
    type: interruptType(block.value),
    props: block.frozenValue === undefined ? block.value : block.frozenValue,
    meta: objectOf(objectOf(block.value).metadata),
    readOnly: block.phase !== "open",
    interruptId,
    ...(response !== undefined && { response }),
  };
  return { kind: "interrupt", id, block, node };
}

/** The name of an interrupt's widget: the `type` of its value, else its `metadata.widget`. */
function interruptType(value: Json): string {
  if (!isObject(value)) return "interrupt";
  const named = value.type ?? objectOf(value.metadata).widget;
  return typeof named === "string" ? named : "interrupt";
}
