/**
 * Fields without a value must be omitted, not null: on a null, one generation of clients fails with an error and the
 * other ends the stream silently. Only user data may contain nulls.
 */

/** The fields that hold user data. */
const USER_FIELDS = new Set([
  ..."snapshot value result rawEvent event metadata state forwardedProps responseSchema payload parameters".split(" "),
]);

/**
 * @param {any} event
 * @returns {string[]} the paths of invalid nulls
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
    USER_FIELDS.has(key) || isActivityContent(value, key) ? [] : walk(inner, `${path}.${key}`),
  );
}

/**
 * @param {any} owner
 * @param {string} key
 */
const isActivityContent = (owner, key) => key === "content" && "activityType" in owner;
