/**
 * A field without a value is left out, never null: one generation of clients fails on a null, loudly, and the other
 * ends the stream without a word. Only what belongs to the user may hold nulls.
 */

/** The fields whose content is the user's, not the protocol's. */
const FREE = new Set([
  ..."snapshot value result rawEvent event metadata state forwardedProps responseSchema payload parameters".split(" "),
]);

/**
 * @param {any} event
 * @returns {string[]} the paths of the nulls that must not be there
 */
export function nullsOf(event) {
  return walk(event, event.type ?? "?");
}

/**
 * @param {any} value
 * @param {string} path
 * @returns {string[]}
 */
function walk(value, path) {
  if (value === null) return [path];
  if (typeof value !== "object") return [];
  return Object.entries(value).flatMap(([key, inner]) =>
    FREE.has(key) || isActivityContent(value, key) ? [] : walk(inner, `${path}.${key}`),
  );
}

/**
 * @param {any} owner
 * @param {string} key
 */
const isActivityContent = (owner, key) => key === "content" && "activityType" in owner;
