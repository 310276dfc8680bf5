/**
 * Silences the console: the client logs the errors that the tests provoke. Warnings are collected for inspection.
 */
/** @type {string[]} */
export const warnings = [];
console.warn = (...args) => void warnings.push(args.map(String).join(" "));
console.error = () => {};
