/** Pseudo-random choices that are the same in every run. */
export function randomOf(seed) {
  let state = seed;
  const next = () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
  const integer = (end) => Math.floor(next() * end);
  const pick = (items) => items[integer(items.length)];
  const list = (end, create) => Array.from({ length: integer(end) }, create);
  return { integer, pick, list };
}
