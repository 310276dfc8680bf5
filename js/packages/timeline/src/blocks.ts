/** Blocks in the JSON form of spec/timeline.md, section 1. */
import type { Message } from "./chunks.js";
import type { Json, JsonObject } from "./json.js";

/** A path of subgraphs, empty at the root. */
export type Namespace = readonly string[];

interface BlockBase {
  id: string;
  /** The position of the log entry that created the block; 0 where there is none. */
  seq: number;
  /** For display only. */
  receivedAt: number;
  updatedAt: number;
  /** Increases by one with every change of the block. */
  rev: number;
  ns: Namespace;
  runId?: string;
  anchorId?: string;
  /** The branch that has this block: the checkpoint at its end. Absent if the block is on the path that is shown. */
  branchId?: string;
}

export interface MessageBlock extends BlockBase {
  kind: "message";
  message: Message;
  visible: boolean;
  status: "pending" | "streaming" | "complete" | "failed";
  mode?: "delta" | "snapshot";
  meta?: JsonObject;
  transient?: true;
}

/** A UI message in the JSON form of LangGraph's `push_ui_message`. */
export type UiMessage = JsonObject;

export interface UiBlock extends BlockBase {
  kind: "ui";
  ui: UiMessage;
  pendingAnchor?: string;
  incomplete?: true;
}

export interface InterruptBlock extends BlockBase {
  kind: "interrupt";
  interruptId: string;
  /** What the graph asks. */
  value: Json;
  phase: "open" | "submitting" | "completed";
  completed: boolean;
  responseSchema?: Json;
  breakpoint?: true;
  hidden?: true;
  outcome?: "answered" | "answered-elsewhere" | "abandoned" | "cancelled";
  /** What the widget showed when it was submitted. */
  frozenValue?: Json;
  /** What the graph was resumed with. */
  response?: Json;
  respondedAt?: number;
  respondedBy?: Json;
  respondedVia?: string;
  completedRunId?: string;
  /** Why the server rejected the last answer. */
  error?: string;
}

export type Block = MessageBlock | UiBlock | InterruptBlock;

type WithoutStamp<B> = B extends Block
  ? Omit<B, "seq" | "receivedAt" | "updatedAt" | "rev" | "ns"> & { ns?: Namespace }
  : never;

/** A block before it is placed; the operation's stamp adds the rest. */
export type NewBlock = WithoutStamp<Block>;
