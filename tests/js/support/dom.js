/**
 * A document for React to render into, as globals, since libraries look there. Import it before them.
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
 * Have a script run that lies under a shadow root. Browsers do it by themselves; jsdom runs only those of the document.
 *
 * @param {HTMLScriptElement} script
 */
export function runScript(script) {
  const again = document.createElement("script");
  for (const { name, value } of script.attributes) again.setAttribute(name, value);
  document.head.append(again);
}
