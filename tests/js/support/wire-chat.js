/**
 * The page of wire-page.js under a DOM. Tests read it as a user would, and act through what `useStream` returned.
 */
import "./dom.js";

import { cleanup, render, within } from "@testing-library/react";
import { createElement as h } from "react";

import { apiUrl, userInput } from "./sdk.js";
import { until } from "./until.js";
import { WirePage } from "./wire-page.js";

/** @typedef {{ type: string, text: string }} Shown */

/** @param {Record<string, any>} options of `useStream` */
export function openWireChat(options) {
  /** @type {any} */
  let stream;
  /** @type {Shown[][]} */
  const everShown = [];
  const onRender = (/** @type {any} */ latest) => void (stream = latest);
  const { container, unmount } = render(h(WirePage, { options: { apiUrl, ...options }, onRender }));
  const page = within(container);
  const items = () => /** @type {HTMLElement[]} */ ([...container.querySelectorAll("ol li")]);
  /** @returns {Shown[]} */
  const shown = () => items().map((item) => ({ type: item.dataset.type ?? "", text: item.textContent ?? "" }));
  new MutationObserver(() => everShown.push(shown())).observe(container, {
    childList: true,
    subtree: true,
    characterData: true,
  });
  const reply = () => shown().findLast((message) => message.type === "ai")?.text ?? "";
  const isBusy = () => container.querySelector("main")?.getAttribute("aria-busy") === "true";

  return {
    shown,
    everShown,
    reply,
    isBusy,
    stream: () => stream,
    close: unmount,
    threadId: () => container.querySelector("main")?.getAttribute("data-thread") ?? "",
    interrupts: () => page.queryAllByRole("dialog").map((dialog) => JSON.parse(dialog.textContent ?? "")),
    alert: () => page.queryByRole("alert")?.textContent ?? null,
    tools: () => /** @type {HTMLElement[]} */ ([...container.querySelectorAll("ul li")]).map((item) => ({ ...item.dataset })),
    subgraphs: () =>
      /** @type {HTMLElement[]} */ ([...container.querySelectorAll("figure")]).map((figure) => ({
        text: figure.textContent,
        status: figure.dataset.status,
      })),
    queued: () => Number(container.querySelector("aside")?.dataset.size),
    /** The checkpoint before each message. */
    parents: () => items().map((item) => item.dataset.parent ?? ""),
    /** @param {string} text @param {Record<string, any>} [how] */
    send: (text, how) => void stream.submit(userInput(text), how),
    /** @param {number} count */
    waitForWords: (count) => until(`${count} words are shown`, () => reply().split(" ").length >= count),
    waitUntilIdle: () => until("the page is idle", () => !isBusy(), 60_000),
  };
}

export const closeAll = cleanup;
