/** The operations that a timeline is folded from (spec/timeline.md, section 2). */
import type { Namespace, UiMessage } from "./blocks.js";
import type { Message } from "./chunks.js";
import type { Json, JsonObject } from "./json.js";

/** Where and when an operation happened. */
export interface Stamp {
  runId?: string;
  ns?: Namespace;
  seq?: number;
  at?: number;
}

export interface Interrupt {
  id: string;
  value: Json;
  responseSchema?: Json;
  ns?: Namespace;
  breakpoint?: true;
}

/** What changed in the state of a namespace (spec/log.md, 6.6). */
export interface ValuesPatch {
  full?: boolean;
  set?: JsonObject;
  unset?: string[];
  splice?: Record<string, Splice>;
}

/** The index, how many elements are dropped, and the elements to insert. */
export type Splice = [number, number, Json[]];

export interface Answers {
  answers?: { id: string; response?: Json }[];
  response?: Json;
  by?: Json;
  via?: string | null;
}

export interface Fork {
  /** The branch that the run leaves. Absent if its checkpoint is the newest one, or if the branch is not known. */
  branchId?: string;
  /** The position of the checkpoint that it starts from, if that is known. */
  position?: number;
}

export interface RunEnd {
  status: string;
  pending?: Interrupt[] | null;
  next?: string[];
  checkpointId?: string | null;
  /** The interrupts whose answers were lost with the run. */
  unanswered?: string[];
}

type Body =
  | { op: "run.started"; attempt?: number }
  | ({ op: "run.forked" } & Fork)
  | { op: "message.delta"; message: Message; meta?: JsonObject; begin?: boolean }
  | { op: "message.delta"; id: string; text: string; message?: never }
  | { op: "message.snapshot"; message: Message; meta?: JsonObject }
  | { op: "message.full"; message: Message; meta?: JsonObject }
  | { op: "message.meta"; id: string; meta: JsonObject }
  | { op: "message.remove"; id: string }
  | { op: "values"; values: Json }
  | ({ op: "values.patch" } & ValuesPatch)
  | { op: "ui"; ui: UiMessage }
  | { op: "ui.remove"; id: string }
  | { op: "interrupts"; interrupts: Interrupt[] }
  | { op: "interrupts.pending"; interrupts: Interrupt[] }
  | ({ op: "interrupt.answered" } & Answers)
  | { op: "interrupt.frozen"; id: string; frozenValue?: Json; by?: Json }
  | ({ op: "run.ended" } & RunEnd)
  | { op: "custom"; value: Json }
  | { op: "reset" };

/** Operations that only the log of a thread has. */
export type LogOperation = Stamp & ({ op: "run.input" } | { op: "namespace.ended" });

/** Operations that only a client has: what the user sent, before the server has it. */
export type LocalOperation = Stamp & LocalBody;

type LocalBody =
  | { op: "message.local"; message: Message }
  | { op: "message.rejected"; id: string }
  | { op: "interrupt.submitting"; id: string; frozenValue?: Json }
  | { op: "interrupt.rejected"; id: string; error: string }
  | { op: "interrupt.elsewhere"; id: string; response?: Json };

export type Operation = Stamp & Body;
