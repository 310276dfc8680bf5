/**
 * A document for React to render into, as globals, since libraries look there. Import it before them.
 */
import { JSDOM } from "jsdom";

const { window } = new JSDOM("<!doctype html><body></body>", { url: "http://localhost/" });
const { document, navigator, HTMLElement, MutationObserver } = window;

for (const [name, value] of Object.entries({ window, document, navigator, HTMLElement, MutationObserver })) {
  Object.defineProperty(globalThis, name, { value, configurable: true, writable: true });
}
