/** A page without a browser. Import it before React. */
import { JSDOM } from "jsdom";

const { window } = new JSDOM("<!doctype html><body></body>", { url: "http://test/", pretendToBeVisual: true });
Object.assign(globalThis, {
  window,
  document: window.document,
  IS_REACT_ACT_ENVIRONMENT: true,
  HTMLElement: window.HTMLElement,
  Node: window.Node,
  MutationObserver: window.MutationObserver,
  requestAnimationFrame: (callback) => setTimeout(callback, 1),
});
Object.defineProperty(globalThis, "navigator", { value: window.navigator, configurable: true });

/** jsdom accepts only its own signals, and `fetch` only those of Node. */
for (const target of [window, window.document]) {
  const add = target.addEventListener.bind(target);
  target.addEventListener = (type, listener, options) => {
    const { signal, ...others } = typeof options === "object" ? options : {};
    add(type, listener, others);
    signal?.addEventListener("abort", () => target.removeEventListener(type, listener, others));
  };
}
