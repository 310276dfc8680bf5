/**
 * A run that opens every kind of part: text, a tool call, reasoning, steps, a subagent. It contains multi-byte
 * characters, and entries with several events.
 */
import { finished, started } from "./thread.js";

/** @typedef {import("./thread.js").Event} Event */

const text = (/** @type {string} */ messageId, /** @type {string} */ delta) => ({ type: "TEXT_MESSAGE_CONTENT", messageId, delta });

/** @type {Event[][]} */
const eventGroups = [
  [started()],
  [{ type: "STATE_SNAPSHOT", snapshot: { count: 0, name: "Zoë" } }, { type: "STEP_STARTED", stepName: "think" }],
  [
    { type: "REASONING_START", messageId: "span" },
    { type: "REASONING_MESSAGE_START", messageId: "thought", role: "reasoning" },
    { type: "REASONING_MESSAGE_CONTENT", messageId: "thought", delta: "Let me " },
  ],
  [{ type: "REASONING_MESSAGE_CONTENT", messageId: "thought", delta: "see…" }],
  [
    { type: "REASONING_MESSAGE_END", messageId: "thought" },
    { type: "REASONING_END", messageId: "span" },
    { type: "TEXT_MESSAGE_START", messageId: "answer", role: "assistant" },
    text("answer", "Grü"),
  ],
  [text("answer", "ße 🎉, ")],
  [text("answer", "again ")],
  [{ type: "TOOL_CALL_START", toolCallId: "call", toolCallName: "look", parentMessageId: "answer" }],
  [{ type: "TOOL_CALL_ARGS", toolCallId: "call", delta: '{"where":' }],
  [text("answer", "again.")],
  [{ type: "TOOL_CALL_ARGS", toolCallId: "call", delta: '"hier"}' }],
  [
    { type: "TOOL_CALL_END", toolCallId: "call" },
    { type: "TEXT_MESSAGE_END", messageId: "answer" },
    { type: "STEP_FINISHED", stepName: "think" },
  ],
  [{ type: "STEP_STARTED", stepName: "act" }, { type: "SUBAGENT_STARTED", subagentRunId: "sub", name: "helper" }],
  [{ type: "TEXT_MESSAGE_START", messageId: "aside", role: "assistant", subagentRunId: "sub" }, text("aside", "psst")],
  [{ type: "TEXT_MESSAGE_END", messageId: "aside" }, { type: "SUBAGENT_FINISHED", subagentRunId: "sub" }],
  [
    { type: "TOOL_CALL_RESULT", messageId: "result", toolCallId: "call", content: "ok", role: "tool" },
    { type: "STATE_DELTA", delta: [{ op: "replace", path: "/count", value: 1 }] },
    { type: "STEP_FINISHED", stepName: "act" },
  ],
  // The same id again: a closed message that is continued.
  [{ type: "TEXT_MESSAGE_START", messageId: "answer", role: "assistant" }, text("answer", " Done."), { type: "TEXT_MESSAGE_END", messageId: "answer" }],
  [{ type: "STATE_DELTA", delta: [{ op: "add", path: "/last", value: [1, 2] }] }, finished()],
];

/** As in a real log, some entries have no events in this protocol, so the sequence numbers have gaps. */
export const sampleRun = eventGroups.map((events, index) => ({ seq: 3 * index + 7, events }));

/** A short run. @param {string} name @param {number} first */
export const shortRun = (name, first) =>
  [
    [started(name)],
    [{ type: "TEXT_MESSAGE_START", messageId: name, role: "assistant" }, text(name, "hello ")],
    [text(name, name)],
    [{ type: "TEXT_MESSAGE_END", messageId: name }, { type: "STATE_SNAPSHOT", snapshot: { last: name } }],
    [finished(name)],
  ].map((events, index) => ({ seq: first + index, events }));
