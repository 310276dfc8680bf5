/**
 * The page most people build around the classic `useStream`: the conversation, a question to answer, and whether it is
 * busy. It is read through the document, as a person would, and remembers everything it has ever shown.
 */
import "./dom.js";

import { cleanup, render, within } from "@testing-library/react";
import { createElement as h } from "react";

import { apiUrl, sdk, says } from "./sdk.js";
import { until } from "./until.js";

const { useStream } = await import(`${sdk}/react`);

/** @typedef {{ type: string, text: string }} Shown */

/** @param {{ options: any, take: (thread: any) => void }} props */
function Page({ options, take }) {
  const thread = useStream({ apiUrl, messagesKey: "messages", ...options });
  take(thread);
  return h("main", { "aria-busy": thread.isLoading }, [
    h("ol", { key: "messages" }, thread.messages.map(messageItem)),
    thread.interrupt && h("p", { key: "question", role: "dialog" }, JSON.stringify(thread.interrupt.value)),
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
  const { container, unmount } = render(h(Page, { options, take: (/** @type {any} */ latest) => (thread = latest) }));
  const page = within(container);

  /** @returns {Shown[]} */
  const shown = () =>
    [...container.querySelectorAll("li")].map((item) => ({ type: item.dataset.type ?? "", text: item.textContent ?? "" }));
  new MutationObserver(() => everShown.push(shown())).observe(container, {
    childList: true,
    subtree: true,
    characterData: true,
  });
  const answer = () => shown().findLast((message) => message.type === "ai")?.text ?? "";

  return {
    shown,
    everShown,
    answer,
    question: () => page.queryByRole("dialog")?.textContent ?? null,
    alert: () => page.queryByRole("alert")?.textContent ?? null,
    busy: () => container.querySelector("main")?.getAttribute("aria-busy") === "true",
    /** The versions there are of the last message. */
    branches: () => thread.getMessagesMetadata(thread.messages.at(-1))?.branchOptions ?? [],
    close: unmount,
    /** What `useStream` gave last. */
    hook: () => thread,
    // What a person does is begun and not awaited: when `useStream` considers it done differs between its versions.
    /** @param {string} text */
    say: (text) => void thread.submit(says(text)),
    /** @param {unknown} reply */
    reply: (reply) => void thread.submit(undefined, { command: { resume: reply } }),
    /** Have the last message made anew, from the state before it. */
    again() {
      const { firstSeenState } = thread.getMessagesMetadata(thread.messages.at(-1));
      void thread.submit(undefined, { checkpoint: firstSeenState.parent_checkpoint });
    },
    stop: () => void thread.stop(),
    /** @param {string} runId */
    join: (runId) => void thread.joinStream(runId),
    /** @param {number} count */
    showsWords: (count) => until(`${count} words are shown`, () => answer().split(" ").length >= count),
    isDone() {
      return until("the page is at rest", () => !this.busy(), 60_000);
    },
  };
}

export const closeAll = cleanup;
