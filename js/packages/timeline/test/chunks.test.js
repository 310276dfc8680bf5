/** Chunks merge as LangChain's own classes merge them. tests/integration compares with langchain_core. */
import assert from "node:assert/strict";
import test from "node:test";

import { AIMessageChunk, HumanMessageChunk } from "@langchain/core/messages";

import { firstChunk, isText, mergeChunk } from "../dist/chunks.js";
import { randomOf } from "./support/random.js";

const ARGS = ['{"k": 1}', '{"k": [1, {"l": "é"', '{"k": "a', "", "[1"];

/** Chunks in the range in which LangChain's JavaScript and Python agree. */
function chunk({ integer, pick, list }, isFirst = true, isListed = false) {
  const words = ["", "a", " b", "é"];
  const call = (index) => ({ ...(isFirst && { name: "f", id: `call-${index}` }), args: pick(isFirst ? ARGS : [""]), index });
  const calls = isFirst ? [call(0), call(1)] : list(3, (_, index) => call(index));
  return {
    content: isListed ? list(3, (_, index) => ({ type: "text", text: pick(words.slice(1)), index })) : pick(words),
    tool_call_chunks: calls.map((each) => ({ ...each, type: "tool_call_chunk" })),
    additional_kwargs: pick([{}, { text: pick(words) }, { nested: { part: pick(words) } }]),
    response_metadata: pick([{}, { finish: "stop" }]),
    ...(integer(2) && { usage_metadata: { input_tokens: integer(9), output_tokens: integer(9), total_tokens: integer(9) } }),
  };
}

function shown({ content, additional_kwargs, response_metadata, tool_calls, invalid_tool_calls, usage_metadata }) {
  const call = ({ name, args, id }) => ({ name: name ?? "", args, ...(id && { id }) });
  return {
    content,
    additional_kwargs,
    response_metadata,
    tool_calls: (tool_calls ?? []).map(call),
    invalid: (invalid_tool_calls ?? []).length,
    tokens: usage_metadata?.total_tokens,
  };
}

test("merging equals AIMessageChunk.concat of @langchain/core on generated chunks", () => {
  for (let seed = 1; seed <= 500; seed++) {
    const random = randomOf(seed);
    const chunks = Array.from({ length: 1 + random.integer(4) }, (_, at) => chunk(random, at === 0, seed % 2 === 0));
    const theirs = chunks.map((fields) => new AIMessageChunk(fields)).reduce((left, right) => left.concat(right));
    const plain = chunks.map((fields) => ({ type: "AIMessageChunk", id: "m", ...structuredClone(fields) }));
    const ours = plain.slice(1).reduce(mergeChunk, firstChunk(plain[0]));
    assert.deepEqual(shown(ours), shown(theirs), `seed ${seed}: ${JSON.stringify(chunks)}`);
  }
});

test("merging equals HumanMessageChunk.concat of @langchain/core", () => {
  const theirs = new HumanMessageChunk("a").concat(new HumanMessageChunk("b"));
  const chunks = ["a", "b"].map((content) => ({ type: "HumanMessageChunk", id: "m", content }));
  assert.equal(mergeChunk(firstChunk(chunks[0]), chunks[1]).content, theirs.content);
});

test("merging changes no argument", () => {
  for (let seed = 1; seed <= 50; seed++) {
    const random = randomOf(seed);
    const [left, right] = [chunk(random), chunk(random)].map((fields) => ({ type: "AIMessageChunk", id: "m", ...fields }));
    const before = structuredClone([left, right]);
    mergeChunk(firstChunk(left), right);
    assert.deepEqual([left, right], before);
  }
});

test("keys that all objects inherit are ordinary data", () => {
  const chunk = JSON.parse('{"type":"AIMessageChunk","id":"m","content":"","additional_kwargs":{"__proto__":"a","constructor":"b"}}');
  const merged = mergeChunk(firstChunk(chunk), chunk);
  assert.deepEqual(Object.entries(merged.additional_kwargs), [["__proto__", "aa"], ["constructor", "bb"]]);
});

test("a chunk that has more than text is not text", () => {
  assert.ok(isText({ content: "a", tool_calls: [] }));
  assert.ok(!isText({ content: "a", tool_calls: [{}] }));
});
