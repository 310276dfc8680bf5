/** Folds what it reads from its input, one request per line, for tests that compare it with the server's reducer. */
import { createInterface } from "node:readline";

import { firstChunk, mergeChunk } from "../../dist/chunks.js";
import { applyLogged } from "../../dist/log.js";
import { TimelineState } from "../../dist/state.js";
import { EntryNormalizer } from "./entries.js";
import { foldEvents } from "./vectors.js";

function answer({ entries, options, restoreAt, events, chunks }) {
  if (chunks) return chunks.slice(1).reduce(mergeChunk, firstChunk(chunks[0]));
  return events ? foldEvents(events, options) : foldEntries(entries, options, restoreAt);
}

/** Fold entries. At one of them, the fold is written as JSON and restored. */
function foldEntries(entries, options, restoreAt) {
  const normalizer = new EntryNormalizer();
  let state = new TimelineState(options);
  entries.forEach((entry, at) => {
    if (at === restoreAt) state = restored(state, options);
    for (const operation of normalizer.feed(entry)) applyLogged(state, operation);
  });
  return { blocks: state.blocks(), values: state.values };
}

function restored(state, options) {
  const stored = JSON.parse(JSON.stringify([state.blocks(), state.values, state.record()]));
  const copy = new TimelineState(options);
  copy.restore(...stored);
  return copy;
}

for await (const line of createInterface({ input: process.stdin })) {
  process.stdout.write(`${JSON.stringify(answer(JSON.parse(line)))}\n`);
}
