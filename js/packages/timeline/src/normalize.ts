/** Wire events of the classic run stream, converted to operations (spec/timeline.md, 2.3 to 2.6). */
import type { Namespace } from "./blocks.js";
import { isChunk, type Message } from "./chunks.js";
import { asList, canonical, fnv1a64, isObject, type Json, listOf, objectOf, objectsIn, without } from "./json.js";
import type { Interrupt, Operation } from "./operations.js";

const INTERRUPT = "__interrupt__";

export interface NormalizedEvent {
  type: "message" | "ui" | "values" | "interrupt" | "run" | "custom" | "ignore";
  /** What follows the slash of the event's name; "base" if nothing does. */
  subtype: string;
  payload: Json;
  receivedAt: number;
  /** The subgraph that the event is from. */
  ns: Namespace;
  /** What the event does to a timeline. */
  operations: Operation[];
}

const TYPES: Record<string, NormalizedEvent["type"]> = {
  messages: "message",
  values: "values",
  updates: "interrupt",
  tasks: "interrupt",
  "input.requested": "interrupt",
  metadata: "run",
  error: "run",
};

/** Convert a raw stream event. Never throws: an event that is unknown or malformed has no operations. */
export function normalizeEvent(eventName: string, data: Json, receivedAt = Date.now()): NormalizedEvent {
  const { base, sub, ns } = parseName(eventName);
  const operations = operationsOf(base, sub, data, ns).map((operation) => ({ ...operation, ns, at: receivedAt }));
  let type = operations.length > 0 ? (TYPES[base] ?? "custom") : "ignore";
  if (type === "custom" && operations.some(({ op }) => op !== "custom")) type = "ui";
  return { type, subtype: sub || "base", payload: data, receivedAt, ns, operations };
}

/** The base, the part after the slash, and the namespace of an event's name. */
function parseName(name: string): { base: string; sub: string; ns: string[] } {
  const [head = "", ...ns] = name.split("|");
  const slash = head.indexOf("/");
  const base = slash < 0 ? head : head.slice(0, slash);
  let sub = slash < 0 ? "" : head.slice(slash + 1);
  const suffix = /^(.*)\/(partial|metadata|complete)$/s.exec(ns.at(-1) ?? "");
  if (suffix) {
    ns[ns.length - 1] = suffix[1]!;
    sub = suffix[2]!;
  }
  return { base, sub, ns };
}

function operationsOf(base: string, sub: string, data: Json, ns: Namespace): Operation[] {
  switch (sub ? `${base}/${sub}` : base) {
    case "metadata":
      return isObject(data) ? [{ op: "run.started", attempt: Number(data.attempt ?? 1) }] : [];
    case "messages": {
      const [message, meta] = listOf(data);
      return isObject(message) ? [wholeOrDelta(message, meta)] : [];
    }
    case "messages/partial":
      return objectsIn(data).map((message) => ({ op: "message.snapshot", message }));
    case "messages/complete":
      return objectsIn(data).map((message) => removal(message) ?? { op: "message.full", message });
    case "messages/metadata":
      return Object.entries(objectOf(data)).map(([id, found]) => {
        const { metadata } = objectOf(found);
        return { op: "message.meta", id, meta: objectOf(metadata ?? found) };
      });
    case "values":
      return valuesOperations(data, ns);
    case "updates":
      return isObject(data) && INTERRUPT in data ? [interruptsOperation(data[INTERRUPT]!, ns)] : [];
    case "tasks": {
      const { interrupts } = objectOf(data);
      return Array.isArray(interrupts) && interrupts.length > 0 ? [interruptsOperation(interrupts, ns)] : [];
    }
    case "input.requested":
      return [interruptsOperation(data, ns)];
    case "custom":
      return asList(data).map(customOperation);
    case "error":
      return [{ op: "run.ended", status: "error" }];
    default:
      return [];
  }
}

function wholeOrDelta(message: Message, meta: Json | undefined): Operation {
  const withMeta = isObject(meta) ? { meta } : {};
  if (isChunk(message)) return { op: "message.delta", message, ...withMeta };
  return removal(message) ?? { op: "message.full", message, ...withMeta };
}

function removal(message: Message): Operation | undefined {
  return message.type === "remove" ? { op: "message.remove", id: String(message.id) } : undefined;
}

function valuesOperations(data: Json, ns: Namespace): Operation[] {
  if (!isObject(data)) return data === null ? [] : [{ op: "values", values: data }];
  const values = without(data, INTERRUPT);
  const asks = INTERRUPT in data;
  return [
    ...(Object.keys(values).length > 0 || !asks ? [{ op: "values", values } as const] : []),
    ...(asks ? [interruptsOperation(data[INTERRUPT]!, ns)] : []),
  ];
}

/** What a node wrote to the custom stream: a widget, a removal, or something of the application's own. */
export function customOperation(value: Json): Operation {
  if (isObject(value) && value.type === "ui") return { op: "ui", ui: value };
  if (isObject(value) && value.type === "remove-ui" && typeof value.id === "string") {
    return { op: "ui.remove", id: value.id };
  }
  return { op: "custom", value };
}

function interruptsOperation(items: Json, ns: Namespace): Operation {
  return { op: "interrupts", interrupts: interruptsOf(items, ns) };
}

/** The interrupts of an `__interrupt__` value, whatever its form (2.6); what is not an object is left out. */
export function interruptsOf(items: Json, ns: Namespace = []): Interrupt[] {
  return objectsIn(asList(items)).map((item) => {
    const value = item.value ?? null;
    const inner = Array.isArray(item.namespace) ? item.namespace.map(String) : undefined;
    const named = [item.id, item.interrupt_id, item.interruptId].find((id) => typeof id === "string" && id);
    const id = named ?? `anon:${fnv1a64(canonical([value, [...(inner ?? ns)]]))}`;
    const responseSchema = item.response_schema ?? item.responseSchema ?? null;
    return { id: id as string, value, ...(responseSchema !== null && { responseSchema }), ...(inner && { ns: inner }) };
  });
}

/** Whether an event id is not after another (2.5). False if one of them does not consist of decimal numbers. */
export function isNotAfter(id: string, cursor: string): boolean {
  const [left, right] = [id, cursor].map((each) => (/^\d+(-\d+)*$/.test(each) ? each.split("-").map(Number) : undefined));
  if (!left || !right) return false;
  for (const [at, part] of left.entries()) {
    const other = right[at];
    if (other === undefined || part > other) return false;
    if (part < other) return true;
  }
  return true;
}
