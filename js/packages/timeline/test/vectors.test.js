/** Every vector of spec/timeline yields the blocks and values that it expects (spec/timeline.md, "Vectors"). */
import assert from "node:assert/strict";
import test from "node:test";

import { comparable, fold, foldEvents, VECTORS } from "./support/vectors.js";

for (const [name, vector] of Object.entries(VECTORS)) {
  test(`vector ${name} gives its timeline`, () => {
    const { blocks, values } = fold(vector);
    assert.deepEqual(
      blocks.map(({ id }) => id),
      vector.blocks.map(({ id }) => id),
    );
    assert.deepEqual(comparable(blocks, vector.blocks), vector.blocks);
    if ("values" in vector) assert.deepEqual(values, vector.values);
  });
}

const numbered = Object.entries(VECTORS).filter(([, { events }]) => events?.every(({ id }) => id !== undefined));

for (const [name, { events, options }] of numbered) {
  test(`replaying ${name} from any earlier event changes nothing`, () => {
    const straight = foldEvents(events, options);
    for (let end = 0; end <= events.length; end++) {
      for (let start = 0; start <= end; start++) {
        // A stream starts with the event that names its run.
        const replayed = [...events.slice(0, end), events[0], ...events.slice(start)];
        assert.deepEqual(foldEvents(replayed, options), straight);
      }
    }
  });
}
