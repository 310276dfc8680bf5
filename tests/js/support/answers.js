/**
 * What agents/agents.py answers: numbered words, so that a lost or a doubled one is seen.
 *
 * @param {string} first
 * @param {number} count
 */
export const words = (first, count) => Array.from({ length: count }, (_, number) => `${first}${number}`).join(" ");

/** The answer of the agents that take their time. */
export const longAnswer = words("w", 60);
