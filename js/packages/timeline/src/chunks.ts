/**
 * Chunks of a streamed message, merged as LangChain merges them, on plain objects (spec/timeline.md, 4.13).
 *
 * Never throws: where LangChain finds two types under one key, the later value wins. Arguments are never changed; the
 * result may share parts with them.
 */
import { fieldOf, isObject, type Json, type JsonObject, listOf, objectOf, objectsIn, parsed, without } from "./json.js";
import { parsePartialJson } from "./partial-json.js";

/** A message in the JSON form of LangChain. */
export type Message = JsonObject;

const NOT_TEXT = [
  "additional_kwargs",
  "artifact",
  "chunk_position",
  "invalid_tool_calls",
  "response_metadata",
  "tool_call_chunks",
  "tool_calls",
  "usage_metadata",
];
const KEPT_IF_EQUAL = ["id", "output_version", "model_provider"];
const LATEST = ["index", "created", "timestamp"];

export function isChunk(message: Message): boolean {
  return String(message.type).endsWith("Chunk");
}

export function isLast(message: Message): boolean {
  return message.chunk_position === "last";
}

/** Whether the chunk adds nothing to its message except text. */
export function isText(chunk: Message): chunk is Message & { content: string } {
  return typeof chunk.content === "string" && NOT_TEXT.every((field) => isEmpty(chunk[field]));
}

/** The message that a stream starts with. */
export function firstChunk(chunk: Message): Message {
  const message = { ...chunk, type: shownType(chunk) };
  if (message.type === "ai") {
    deriveToolCalls(message, toolCallChunks(chunk));
    finishContent(message);
  }
  return message;
}

/** The message with one more chunk. */
export function mergeChunk(message: Message, chunk: Message): Message {
  const known = Object.entries(message).filter(([key, value]) => value !== null || !Object.hasOwn(chunk, key));
  const merged: Message = { ...chunk, ...Object.fromEntries(known) };
  if ("content" in merged) merged.content = mergeContent(message.content ?? "", chunk.content ?? "");
  for (const key of ["additional_kwargs", "response_metadata"]) {
    if (key in merged) merged[key] = mergeObjects(objectOf(message[key]), objectOf(chunk[key]));
  }
  merged.type = shownType(message);
  if (merged.type === "ai") mergeAi(merged, message, chunk);
  else if (merged.type === "tool") mergeTool(merged, message, chunk);
  return merged;
}

/** The type of the whole message. */
function shownType(message: Message): string {
  const type = String(message.type);
  const [, name] = /^(AI|Chat|Function|Human|System|Tool)MessageChunk$/.exec(type) ?? [];
  return name === undefined ? type : name.toLowerCase();
}

function isEmpty(value: Json | undefined): boolean {
  return !value || (typeof value === "object" && Object.keys(value).length === 0);
}

// -- messages of models and tools ------------------------------------------------------------------------------------

function mergeAi(merged: Message, message: Message, chunk: Message): void {
  const [before, after] = [message.usage_metadata, chunk.usage_metadata];
  if (!isEmpty(before) || (after !== undefined && after !== null)) merged.usage_metadata = addUsage(before, after);
  if (isLast(message) || isLast(chunk)) merged.chunk_position = "last";
  deriveToolCalls(merged, mergeLists(toolCallChunks(message), toolCallChunks(chunk)));
  finishContent(merged);
}

function mergeTool(merged: Message, message: Message, chunk: Message): void {
  if ("artifact" in merged) merged.artifact = mergeValues(message.artifact ?? null, chunk.artifact ?? null);
  if (message.status === "error" || chunk.status === "error") merged.status = "error";
}

/** The message's tool call chunks. If it has only whole calls, these are converted to chunks. */
function toolCallChunks(message: Message): Json[] {
  if (!isEmpty(message.tool_call_chunks)) return listOf(message.tool_call_chunks);
  const calls = objectsIn(message.tool_calls).map((call) => callChunk({ ...call, args: pythonJson(call.args ?? null) }));
  return [...calls, ...objectsIn(message.invalid_tool_calls).map(callChunk)];
}

function callChunk(call: JsonObject): JsonObject {
  const { name = null, args = null, id = null, index = null } = call;
  return { name, args, id, index, type: "tool_call_chunk" };
}

/** Set the tool calls, valid and invalid, that result from the chunks. */
function deriveToolCalls(message: Message, chunks: Json[]): void {
  if (chunks.length === 0) return;
  const calls: Json[] = [];
  const invalid: Json[] = [];
  const parts = chunks.filter(isObject).map(callChunk);
  for (const { name = null, args = null, id = null } of parts) {
    const found = isEmpty(args) ? {} : typeof args === "string" ? parsePartialJson(args) : undefined;
    if (isObject(found)) calls.push({ name: name || "", args: found, id, type: "tool_call" });
    else invalid.push({ name, args, id, error: null, type: "invalid_tool_call" });
  }
  message.tool_call_chunks = parts;
  message.tool_calls = calls;
  message.invalid_tool_calls = invalid;
}

/** Convert the tool call chunks in the content to whole calls, once the last chunk is merged (4.13b). */
function finishContent(message: Message): void {
  const { content } = message;
  if (!isLast(message) || objectOf(message.response_metadata).output_version !== "v1" || !Array.isArray(content)) return;
  const calls = objectsIn(message.tool_calls);
  message.content = content.map((part) => (isObject(part) ? finished(part, calls) : part));
}

function finished(part: JsonObject, calls: JsonObject[]): JsonObject {
  if (part.type === "tool_call_chunk") {
    const call = calls.findLast(({ id }) => id && id === part.id);
    if (call) return part.extras === undefined ? call : { ...call, extras: part.extras };
  }
  const args = part.args || "{}";
  if ((part.type === "server_tool_call" || part.type === "server_tool_call_chunk") && typeof args === "string") {
    const whole = parsed(args);
    if (isObject(whole)) return { ...part, type: "server_tool_call", args: whole };
  }
  return part; // its arguments are incomplete, or it has none
}

function addUsage(left: Json | undefined, right: Json | undefined): Json {
  if (isEmpty(left)) return isEmpty(right) ? { input_tokens: 0, output_tokens: 0, total_tokens: 0 } : right!;
  return isEmpty(right) ? left! : added(left, right);
}

function added(left: Json | undefined, right: Json | undefined): Json {
  if (isObject(left) || isObject(right)) {
    const [before, after] = [objectOf(left), objectOf(right)];
    const keys = Object.keys({ ...before, ...after });
    return Object.fromEntries(keys.map((key) => [key, added(fieldOf(before, key), fieldOf(after, key))]));
  }
  return ((left as number) || 0) + ((right as number) || 0);
}

/** JSON as Python's `json.dumps` writes it, because the text is shown to the user and merged with other text. */
function pythonJson(value: Json): string {
  if (Array.isArray(value)) return `[${value.map(pythonJson).join(", ")}]`;
  if (isObject(value)) {
    return `{${Object.entries(value)
      .map(([key, part]) => `${pythonJson(key)}: ${pythonJson(part)}`)
      .join(", ")}}`;
  }
  return JSON.stringify(value).replace(/[\x80-\uffff]/g, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

// -- content, lists, objects -----------------------------------------------------------------------------------------

function mergeContent(left: Json, right: Json): Json {
  if (typeof left === "string") return typeof right === "string" ? left + right : [left, ...listOf(right)];
  const list = listOf(left);
  if (Array.isArray(right)) return mergeLists(list, right);
  const last = list.at(-1);
  if (typeof last === "string") return [...list.slice(0, -1), last + String(right)];
  return list.length > 0 && right ? [...list, right] : list;
}

function mergeLists(left: Json[], right: Json[]): Json[] {
  const merged = [...left];
  for (const item of right) {
    const at = isObject(item) && hasIndex(item) ? merged.findIndex((other) => continues(other, item)) : -1;
    if (at < 0) merged.push(item);
    else merged[at] = mergeObjects(merged[at] as JsonObject, addedPart(merged[at] as JsonObject, item as JsonObject));
  }
  return merged;
}

function hasIndex({ index }: JsonObject): boolean {
  return Number.isInteger(index) || (typeof index === "string" && index.startsWith("lc_"));
}

/** Whether the item continues another element of its list. */
function continues(other: Json, item: JsonObject): boolean {
  if (!isObject(other) || other.index !== item.index) return false;
  return !other.id || !item.id || other.id === item.id;
}

/** The part of an item that is merged into the element that it continues: everything except its type. */
function addedPart(left: JsonObject, item: JsonObject): JsonObject {
  if (left.type && item.type === "non_standard" && isObject(item.value)) {
    const value = without(item.value, "type");
    return left.type === "non_standard" ? { value, index: item.index! } : { extras: value };
  }
  return without(item, "type");
}

function mergeObjects(left: JsonObject, right: JsonObject): JsonObject {
  const merged = new Map(Object.entries(left));
  for (const [key, value] of Object.entries(right)) {
    const before = merged.get(key) ?? null;
    if (before === null) merged.set(key, value);
    else if (value !== null) merged.set(key, mergeField(key, before, value));
  }
  return Object.fromEntries(merged);
}

function mergeField(key: string, left: Json, right: Json): Json {
  if (typeof left === "string" && typeof right === "string") {
    const stays = (key === "index" && left.startsWith("lc_")) || (KEPT_IF_EQUAL.includes(key) && left === right);
    return stays ? left : left + right;
  }
  if (Number.isInteger(left) && Number.isInteger(right) && left !== right && !LATEST.includes(key)) {
    return (left as number) + (right as number);
  }
  return mergeValues(left, right);
}

function mergeValues(left: Json, right: Json): Json {
  if (right === null) return left;
  if (typeof left === "string" && typeof right === "string") return left + right;
  if (isObject(left) && isObject(right)) return mergeObjects(left, right);
  return Array.isArray(left) && Array.isArray(right) ? mergeLists(left, right) : right;
}
