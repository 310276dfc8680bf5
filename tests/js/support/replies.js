/**
 * The replies of agents/agents.py: numbered words, so that missing and duplicate words show.
 *
 * @param {string} prefix
 * @param {number} count
 */
export const numberedWords = (prefix, count) => Array.from({ length: count }, (_, number) => `${prefix}${number}`).join(" ");

/** The reply of the slow agents. */
export const longReply = numberedWords("w", 60);
