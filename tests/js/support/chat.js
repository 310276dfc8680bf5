/**
 * A typical page built with the classic `useStream`: the conversation, the interrupt, and whether it is busy. Tests
 * read it through the document, as a user would. It records everything it has ever shown.
 */
import "./dom.js";

import { cleanup, render, within } from "@testing-library/react";
import { createElement as h } from "react";

import { apiUrl, sdk, userInput } from "./sdk.js";
import { until } from "./until.js";

const { useStream } = await import(`${sdk}/react`);

/** @typedef {{ type: string, text: string }} Shown */

/** @param {{ options: any, onRender: (thread: any) => void }} props */
function Page({ options, onRender }) {
  const thread = useStream({ apiUrl, messagesKey: "messages", ...options });
  onRender(thread);
  return h("main", { "aria-busy": thread.isLoading }, [
    h("ol", { key: "messages" }, thread.messages.map(messageItem)),
    thread.interrupt && h("p", { key: "interrupt", role: "dialog" }, JSON.stringify(thread.interrupt.value)),
    thread.error && h("p", { key: "error", role: "alert" }, thread.error.message),
  ]);
}

/**
 * @param {any} message
 * @param {number} index
 */
const messageItem = (message, index) => h("li", { key: message.id ?? index, "data-type": message.type }, message.content);

/** @param {Record<string, any>} options of `useStream` */
export function openChat(options) {
  /** @type {any} */
  let thread;
  /** @type {Shown[][]} */
  const everShown = [];
  const { container, unmount } = render(h(Page, { options, onRender: (/** @type {any} */ latest) => (thread = latest) }));
  const page = within(container);

  /** @returns {Shown[]} */
  const shown = () =>
    [...container.querySelectorAll("li")].map((item) => ({ type: item.dataset.type ?? "", text: item.textContent ?? "" }));
  new MutationObserver(() => everShown.push(shown())).observe(container, {
    childList: true,
    subtree: true,
    characterData: true,
  });
  const reply = () => shown().findLast((message) => message.type === "ai")?.text ?? "";

  return {
    shown,
    everShown,
    /** The text of the last AI message. */
    reply,
    interrupt: () => page.queryByRole("dialog")?.textContent ?? null,
    alert: () => page.queryByRole("alert")?.textContent ?? null,
    isBusy: () => container.querySelector("main")?.getAttribute("aria-busy") === "true",
    /** The versions of the last message. */
    branches: () => thread.getMessagesMetadata(thread.messages.at(-1))?.branchOptions ?? [],
    close: unmount,
    /** What `useStream` returned last. */
    hook: () => thread,
    // User actions are not awaited: versions of `useStream` differ in when they resolve.
    /** @param {string} text */
    send: (text) => void thread.submit(userInput(text)),
    /** @param {unknown} answer */
    answer: (answer) => void thread.submit(undefined, { command: { resume: answer } }),
    /** Regenerate the last message from the state before it. */
    regenerate() {
      const { firstSeenState } = thread.getMessagesMetadata(thread.messages.at(-1));
      void thread.submit(undefined, { checkpoint: firstSeenState.parent_checkpoint });
    },
    stop: () => void thread.stop(),
    /** @param {string} runId */
    join: (runId) => void thread.joinStream(runId),
    /** @param {number} count */
    waitForWords: (count) => until(`${count} words are shown`, () => reply().split(" ").length >= count),
    waitUntilIdle() {
      return until("the page is idle", () => !this.isBusy(), 60_000);
    },
  };
}

export const closeAll = cleanup;
