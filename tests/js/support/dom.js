/**
 * Defines globals for a document that React renders into. Import it before the libraries that read them.
 */
import { JSDOM } from "jsdom";

const { window } = new JSDOM("<!doctype html><body></body>", {
  url: "http://localhost/",
  runScripts: "dangerously",
  resources: "usable",
});
const { document, navigator, HTMLElement, MutationObserver } = window;

for (const [name, value] of Object.entries({ window, document, navigator, HTMLElement, MutationObserver })) {
  Object.defineProperty(globalThis, name, { value, configurable: true, writable: true });
}

/**
 * Run a script of a shadow root. Browsers do so on their own; jsdom only runs scripts of the document.
 *
 * @param {HTMLScriptElement} script
 */
export function runScript(script) {
  const copy = document.createElement("script");
  for (const { name, value } of script.attributes) copy.setAttribute(name, value);
  document.head.append(copy);
}
