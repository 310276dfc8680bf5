/** Operations applied to a timeline (spec/timeline.md, sections 4, 6 and 7): which rule handles which operation. */
import * as branches from "./branches.js";
import * as interrupts from "./interrupts.js";
import { fieldOf, isObject, type Json, type JsonObject, sameJson } from "./json.js";
import * as messages from "./messages.js";
import type { Operation, RunEnd, ValuesPatch } from "./operations.js";
import { type ListName, type TimelineState, type View, viewKey } from "./state.js";
import * as widgets from "./widgets.js";

/** Apply an operation. */
export function apply(state: TimelineState, operation: Operation): void {
  state.stamp = operation;
  switch (operation.op) {
    case "message.delta":
      if (operation.message) messages.delta(state, operation.message, operation.meta, operation.begin);
      else messages.text(state, operation.id, operation.text);
      break;
    case "message.snapshot":
      messages.snapshot(state, operation.message, operation.meta);
      break;
    case "message.full":
      messages.full(state, operation.message, operation.meta);
      break;
    case "message.meta":
      messages.metadata(state, operation.id, operation.meta);
      break;
    case "message.remove":
      messages.remove(state, operation.id);
      break;
    case "values.patch":
      patchState(state, operation);
      break;
    case "values":
      if (isObject(operation.values)) patchState(state, { full: true, set: operation.values });
      else replaceState(state, operation.values);
      break;
    case "ui":
      widgets.show(state, operation.ui);
      break;
    case "ui.remove":
      state.removeShown(`u:${operation.id}`);
      break;
    case "interrupts":
      interrupts.ask(state, operation.interrupts);
      break;
    case "interrupts.pending":
      interrupts.reconcile(state, operation.interrupts, false);
      break;
    case "interrupt.answered":
      interrupts.answer(state, operation);
      break;
    case "interrupt.frozen":
      interrupts.freeze(state, operation.id, "frozenValue" in operation ? { frozenValue: operation.frozenValue } : {}, operation.by);
      break;
    case "run.started":
      startRun(state, operation.attempt ?? 1);
      break;
    case "run.forked":
      branches.fork(state, operation);
      break;
    case "run.ended":
      endRun(state, operation);
      break;
    case "custom":
      break;
    case "reset":
      state.clear();
      break;
    default:
      operation satisfies never;
  }
}

// -- states ----------------------------------------------------------------------------------------------------------

/** A state that is not an object. */
function replaceState(state: TimelineState, values: Json): void {
  if (!state.isRoot) return;
  interrupts.continueFromBreakpoint(state);
  state.values = values;
}

function patchState(state: TimelineState, patch: ValuesPatch): void {
  const key = viewKey(state.ns);
  const view = state.views.get(key) ?? { ns: state.ns };
  state.views.set(key, view);
  if (state.isRoot) interrupts.continueFromBreakpoint(state);
  patchList(state, view, "messages", patch, messages.upsert);
  patchList(state, view, "ui", patch, widgets.upsert);
  if (!state.isRoot) return;
  state.values = patchedValues(state, patch);
  state.run.hasState = true;
  if (Array.isArray(patch.set?.[state.options.messagesKey])) state.run.hasMessages = true;
}

type Ids = readonly (string | null)[];
type Upsert = (state: TimelineState, ids: Ids, start: number, items: readonly Json[]) => void;

function patchList(
  state: TimelineState,
  view: View,
  name: ListName,
  patch: ValuesPatch,
  upsert: Upsert,
): void {
  const key = name === "ui" ? state.options.uiKey : state.options.messagesKey;
  const replaced = fieldOf(patch.set ?? {}, key);
  const before = view[name];
  const splice = patch.splice && Object.hasOwn(patch.splice, key) ? patch.splice[key] : undefined;
  if (!Array.isArray(replaced) && !(splice && before)) return;
  const [start, drop, items] = Array.isArray(replaced) ? [0, before?.length ?? 0, replaced] : splice!;
  const added = items.map(messages.idOf);
  const ids = [...(before ?? [])];
  const dropped = ids.splice(start, drop, ...added);
  view[name] = ids;
  if (state.isRoot) state.root[name] = new Set(ids);
  upsert(state, ids, start, items);
  if (state.isRoot) removeDropped(state, name === "ui" ? "u:" : "m:", dropped, state.root[name]);
}

/** Remove what has left the root state, or hold or hide it (6.3, 6.3b, 10.3). */
function removeDropped(state: TimelineState, prefix: string, dropped: Ids, present: ReadonlySet<string | null>): void {
  const held = [...state.held].filter((id) => id.startsWith(prefix));
  for (const id of held) if (present.has(id.slice(2))) state.held.delete(id);
  // After a rollback, the list before this one is that of the run, and may be of another branch.
  const left = dropped.filter((id) => id !== null && !present.has(id)).map((id) => prefix + id);
  const gone = left.filter((id) => state.shown(id));
  const { run } = state;
  if (run.answered && !run.forked && !run.hasState) {
    for (const id of gone) state.held.add(id);
    return;
  }
  if (!run.hasState) gone.push(...held.filter((id) => state.held.has(id)));
  if (run.left !== null && !run.hasState) branches.leave(state, gone, run.left);
  else for (const id of gone) state.remove(id);
}

function patchedValues({ values: before, options }: TimelineState, patch: ValuesPatch): JsonObject {
  const { full = false, set = {}, unset = [], splice = {} } = patch;
  const apart = [options.messagesKey, options.uiKey];
  const kept = isObject(before) ? Object.entries(before) : [];
  const stays = ([key]: [string, Json]) => !unset.includes(key) && !(full && !Object.hasOwn(set, key));
  const added = Object.entries(set).filter(([key]) => !apart.includes(key));
  const after = new Map([...kept.filter(stays), ...added]);
  for (const [key, [at, drop, items]] of Object.entries(splice)) {
    const list = after.get(key);
    if (Array.isArray(list)) after.set(key, list.toSpliced(at, drop, ...items));
  }
  const values = Object.fromEntries(after);
  return isObject(before) && sameJson(before, values) ? before : values;
}

// -- runs ------------------------------------------------------------------------------------------------------------

function startRun(state: TimelineState, attempt: number): void {
  const known = state.runs.get(state.stamp.runId);
  if (known && attempt <= known.attempt) return; // a replay
  forgetSubgraphs(state);
  state.runs.delete(undefined);
  if (known) messages.abandon(state);
  state.run.attempt = attempt;
  state.run.hasState = false;
}

function endRun(state: TimelineState, end: RunEnd): void {
  const started = state.runs.has(state.stamp.runId);
  endBlocks(state, end);
  state.runs.delete(state.stamp.runId);
  if (!started) return; // it was cancelled while another run had the thread
  state.metas.clear();
  state.deferred.clear();
  forgetSubgraphs(state);
}

function endBlocks(state: TimelineState, end: RunEnd): void {
  const succeeded = end.status === "success";
  messages.endStreams(state, succeeded);
  messages.reveal(state);
  if (end.status === "interrupted") interrupts.cancel(state);
  if (!succeeded) return;
  for (const id of [...state.held]) state.remove(id);
  interrupts.continueFromBreakpoint(state);
  if (end.pending) interrupts.reconcile(state, [...end.pending, ...interrupts.breakpointOf(end)], state.run.answered);
}

function forgetSubgraphs(state: TimelineState): void {
  for (const [key, { ns }] of state.views) if (ns.length > 0) state.views.delete(key);
}
