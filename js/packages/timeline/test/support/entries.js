/**
 * Log entries converted to operations, as the server does (spec/timeline.md, section 13).
 *
 * A client never sees the log. This exists so that the vectors with entries are checked in TypeScript too.
 */
import { isText } from "../../dist/chunks.js";
import { isObject, without } from "../../dist/json.js";
import { customOperation, interruptsOf } from "../../dist/normalize.js";

const INTERRUPT = "__interrupt__";

export class EntryNormalizer {
  #messagesKey;
  #runId = null;
  #chunks = new Map();
  #plain = new Map();
  #checkpoint = {};
  #newest;
  #base;
  #positions = new Map();
  #rootHasMessages = false;
  #seq = 0;

  constructor(messagesKey = "messages") {
    this.#messagesKey = messagesKey;
  }

  /** The operations of an entry. */
  feed(entry) {
    const { run_id: runId, seq, at } = entry;
    if (seq <= this.#seq) return [];
    this.#seq = seq;
    const stamp = { seq, at, ns: entry.ns, ...(runId !== null && { runId }) };
    if (entry.kind === "task") {
      const ns = [...entry.ns, `${entry.data.name}:${entry.data.id}`];
      return entry.data.ended ? [{ ...stamp, ns, op: "namespace.ended" }] : [];
    }
    return this.#operations(entry).map((operation) => ({ ...stamp, ...operation }));
  }

  #operations(entry) {
    const { kind, data, ns } = entry;
    switch (kind) {
      case "messages":
        return this.#message(entry);
      case "state":
        return this.#state(entry);
      case "custom":
        return (Array.isArray(data.value) ? data.value : [data.value]).map(customOperation);
      case "run.started":
        this.#forget(entry);
        return [{ op: "run.started", attempt: data.attempt ?? 1 }];
      case "run.ended":
        return [this.#ended(entry)];
      case "checkpoint":
        if (ns.length > 0) return [];
        this.#checkpoint = data;
        this.#noteCheckpoint(data.id, entry.seq);
        return data.source === "input" ? [{ op: "run.input" }] : [];
      case "state.reset":
        return this.#reset(data, entry.seq);
      case "input.requested":
        return [{ op: "interrupts", interrupts: interruptsOf(data.interrupts, ns) }];
      case "updates": {
        const asks = ns.length > 0 && isObject(data.value) && INTERRUPT in data.value;
        return asks ? [{ op: "interrupts", interrupts: interruptsOf(data.value[INTERRUPT], ns) }] : [];
      }
      case "input.answered":
        return [answered(data)];
      case "widget.frozen": {
        const frozen = "frozen_value" in data ? { frozenValue: data.frozen_value } : {};
        return [{ op: "interrupt.frozen", id: data.interrupt_id, ...frozen, by: data.by ?? null }];
      }
      default:
        return [];
    }
  }

  #message({ data, ns }) {
    if (Array.isArray(data)) return this.#text(...data);
    const { i, chunk, patch, message, meta } = data;
    const withMeta = meta ? { meta } : {};
    if (patch) {
      const last = this.#chunks.get(i);
      return last ? [{ op: "message.delta", message: this.#remember(i, { ...last, ...patch }) }] : [];
    }
    if (chunk) return [{ op: "message.delta", message: this.#remember(i, chunk), begin: true, ...withMeta }];
    if (data.root) return [];
    if (message.type !== "remove") return [{ op: "message.full", message, ...withMeta }];
    const isExact = ns.length === 0 && this.#rootHasMessages;
    return isExact ? [] : [{ op: "message.remove", id: String(message.id) }];
  }

  #text(i, text) {
    if (this.#plain.has(i)) return [{ op: "message.delta", id: this.#plain.get(i), text }];
    const last = this.#chunks.get(i);
    return last ? [{ op: "message.delta", message: { ...last, content: text } }] : [];
  }

  #remember(i, chunk) {
    this.#chunks.set(i, chunk);
    this.#plain.delete(i);
    if (typeof chunk.id === "string" && isText(chunk)) this.#plain.set(i, chunk.id);
    return chunk;
  }

  #state({ data, ns }) {
    if ("value" in data) return [{ op: "values", values: data.value }];
    const set = without(data.set ?? {}, INTERRUPT);
    const unset = (data.unset ?? []).filter((key) => key !== INTERRUPT);
    const splice = without(data.splice ?? {}, INTERRUPT);
    if (ns.length === 0 && Array.isArray(set[this.#messagesKey])) this.#rootHasMessages = true;
    const changed = data.full || [set, unset, splice].some((part) => Object.keys(part).length > 0);
    return changed ? [{ op: "values.patch", full: Boolean(data.full), set, unset, splice }] : [];
  }

  #reset(data, seq) {
    const { values, cause, checkpoint_id: checkpointId, base_checkpoint_id: updated } = data;
    const base = cause === "fork" ? checkpointId : updated === this.#newest ? undefined : updated;
    const forked = base === undefined ? [] : [this.#forked(base)];
    if (cause !== "fork") this.#noteCheckpoint(checkpointId, seq);
    if (isObject(values) && Array.isArray(values[this.#messagesKey])) this.#rootHasMessages = true;
    return [
      ...forked,
      ...("values" in data ? [{ op: "values", values }] : []),
      ...("interrupts" in data ? [{ op: "interrupts.pending", interrupts: interruptsOf(data.interrupts) }] : []),
    ];
  }

  #forked(base) {
    if (base === this.#newest) return { op: "run.forked" };
    const branch = this.#newest === undefined ? {} : { branchId: this.#newest };
    return { op: "run.forked", ...branch, position: this.#positions.get(base) ?? 0 };
  }

  #noteCheckpoint(id, seq) {
    if (id === undefined) return;
    this.#newest = id;
    if (!this.#positions.has(id)) this.#positions.set(id, seq);
  }

  #forget(entry) {
    this.#newest = entry.data.checkpoint_id ?? this.#newest;
    if (entry.run_id !== this.#runId) this.#base = this.#newest;
    this.#runId = entry.run_id;
    this.#chunks.clear();
    this.#plain.clear();
    this.#checkpoint = {};
  }

  #ended({ data, run_id: runId }) {
    const { status, unanswered = [] } = data;
    const pending = status === "success" ? { pending: interruptsOf(data.interrupts ?? []) } : {};
    if (runId !== this.#runId) return { op: "run.ended", status, ...pending };
    this.#chunks.clear();
    this.#plain.clear();
    if (status === "rolled_back") this.#newest = this.#base;
    const { next, id } = this.#checkpoint;
    return { op: "run.ended", status, ...pending, next: next ?? [], checkpointId: id ?? null, unanswered };
  }
}

function answered({ answers, value, by = null, via = null }) {
  return { op: "interrupt.answered", ...(answers ? { answers } : { response: value ?? null }), by, via };
}
