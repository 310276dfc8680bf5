/**
 * The client reports on the console what the tests provoke. What it warns of is kept, to be looked at.
 */
/** @type {string[]} */
export const warnings = [];
console.warn = (...words) => void warnings.push(words.map(String).join(" "));
console.error = () => {};
