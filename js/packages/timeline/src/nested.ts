/** Subgraphs below the message that opened them. A separate entry point, for pages that show them there. */
import type { Block } from "./blocks.js";
import type { TimelineItem } from "./select.js";

export type NestedItem = TimelineItem & {
  /** The blocks of the subgraphs that the message's tool calls opened. */
  children: readonly NestedItem[];
};

const known = new WeakMap<TimelineItem, NestedItem>();

/**
 * Move the blocks of each subgraph below the message that opened it: the last message before them that calls tools and
 * is outside of the subgraph. Without such a message, they stay in their place. An item is the same object until its
 * block or its children change.
 */
export function nestSubgraphs(items: readonly TimelineItem[]): NestedItem[] {
  const roots: Branch[] = [];
  const callers: Branch[] = [];
  for (const item of items) {
    const branch = { item, children: [] };
    const owner = callers.findLast((caller) => contains(caller.item.block, item.block));
    (owner?.children ?? roots).push(branch);
    if (callsTools(item)) callers.push(branch);
  }
  return roots.map(nested);
}

interface Branch {
  item: TimelineItem;
  children: Branch[];
}

function nested({ item, children }: Branch): NestedItem {
  const below = children.map(nested);
  const before = known.get(item);
  if (before && before.children.length === below.length && below.every((each, at) => each === before.children[at])) {
    return before;
  }
  const created: NestedItem = { ...item, children: below };
  known.set(item, created);
  return created;
}

/** Whether the second block is in a subgraph of the graph that the first one is in. */
function contains({ ns: outer }: Block, { ns: inner }: Block): boolean {
  return outer.length < inner.length && outer.every((segment, at) => segment === inner[at]);
}

function callsTools(item: TimelineItem): boolean {
  const calls = item.kind === "message" ? item.node.tool_calls : null;
  return Array.isArray(calls) && calls.length > 0;
}
