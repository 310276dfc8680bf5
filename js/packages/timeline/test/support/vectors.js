import { readdirSync, readFileSync } from "node:fs";

import { applyLocal } from "../../dist/local-operations.js";
import { applyLogged } from "../../dist/log.js";
import { TimelineState } from "../../dist/state.js";
import { Store } from "../../dist/store.js";
import { normalizeEvent } from "../../dist/normalize.js";
import { EntryNormalizer } from "./entries.js";

const SPEC = new URL("../../../../../spec/", import.meta.url);
const CLOCK = ["seq", "receivedAt", "updatedAt", "rev"];

function read(path) {
  return JSON.parse(readFileSync(new URL(path, SPEC), "utf8"));
}

/** The vectors of spec/timeline, by name. */
export const VECTORS = Object.fromEntries(
  readdirSync(new URL("timeline/", SPEC))
    .filter((name) => name.endsWith(".json"))
    .map((name) => [name.slice(0, -5), read(`timeline/${name}`)]),
);

/** Fold what a vector applies. */
export function fold(vector) {
  if (vector.events) return foldEvents(vector.events, vector.options);
  const operations = vector.operations ?? operationsOf(vector);
  const state = new TimelineState(vector.options);
  for (const operation of operations) if (!applyLocal(state, operation)) applyLogged(state, operation);
  return { blocks: state.blocks(), values: state.values };
}

export function operationsOf(vector) {
  const normalizer = new EntryNormalizer(vector.options?.messagesKey);
  return (vector.entries ?? read(vector.log)).flatMap((entry) => normalizer.feed(entry));
}

export function foldEvents(events, options) {
  const store = new Store({ ...options, now: () => 0 });
  for (const { event, data, id } of events) store.applyEvent("t", normalizeEvent(event, data ?? null, 0), id);
  const { blocks, values } = store.snapshot("t");
  return { blocks, values };
}

/** The blocks without what the vector does not compare. */
export function comparable(found, expected) {
  return found.map((block, at) =>
    Object.fromEntries(Object.entries(block).filter(([key]) => !CLOCK.includes(key) || key in (expected[at] ?? {}))),
  );
}
