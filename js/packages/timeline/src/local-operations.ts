/** What the user did, shown before the server has it (spec/timeline.md, 4.9, 7.8 and 7.8a). */
import type { Json } from "./json.js";
import { complete, newest } from "./interrupts.js";
import { create, idOf } from "./messages.js";
import type { LocalOperation, Operation } from "./operations.js";
import type { Message } from "./chunks.js";
import type { TimelineState } from "./state.js";

/** Apply an operation, if it is local. Returns whether it is. */
export function applyLocal(state: TimelineState, operation: LocalOperation | Operation): operation is LocalOperation {
  state.stamp = operation;
  switch (operation.op) {
    case "message.local":
      send(state, operation.message);
      return true;
    case "message.rejected":
      rejectMessage(state, operation.id);
      return true;
    case "interrupt.submitting":
      submit(state, operation.id, "frozenValue" in operation ? { frozenValue: operation.frozenValue } : {});
      return true;
    case "interrupt.rejected":
      rejectAnswer(state, operation.id, operation.error);
      return true;
    case "interrupt.elsewhere":
      completeElsewhere(state, operation.id, "response" in operation ? { response: operation.response } : {});
      return true;
    default:
      return false;
  }
}

function send(state: TimelineState, message: Message): void {
  const id = idOf(message);
  if (id === null) return;
  const block = state.message(id);
  if (!block) create(state, id, { message, visible: true, status: "pending" });
  else if (block.status === "failed") state.update(block, { message, status: "pending" });
}

function rejectMessage(state: TimelineState, id: string): void {
  const block = state.message(id);
  if (block?.status === "pending") state.update(block, { status: "failed" });
}

function submit(state: TimelineState, id: string, frozen: { frozenValue?: Json }): void {
  const block = newest(state, id);
  if (block?.phase === "open") state.update(block, { phase: "submitting", ...frozen }, "error");
}

function rejectAnswer(state: TimelineState, id: string, error: string): void {
  const block = newest(state, id);
  if (block?.phase === "submitting") state.update(block, { phase: "open", error }, "frozenValue");
}

function completeElsewhere(state: TimelineState, id: string, answered: { response?: Json }): void {
  const block = newest(state, id);
  if (!block) return;
  if (!block.completed) complete(state, block, "answered-elsewhere", { ...answered, respondedAt: state.stamp.at ?? 0 });
  else if (block.outcome === "answered") state.update(block, { outcome: "answered-elsewhere" });
}
