import type { AbstractAgent, Message } from "@ag-ui/client";

type Mirrored = Pick<AbstractAgent, "threadId" | "messages" | "state" | "isRunning" | "setMessages" | "setState" | "subscribe">;

/** What a page says, and the server may not know yet. An answer that the server does not know, it has taken back. */
const isOwn = ({ role }: Message): boolean => role === "user" || role === "tool";

/**
 * Show on `page`, an agent that only knows of its own runs, as CopilotKit's does, what `followed` learns of the same
 * thread: runs that others start, and the rest of a run whose connection was lost. Returns how to stop.
 *
 * While `page` is busy it is left alone, and so is a message of its own that has not reached the server yet.
 */
export function mirror(followed: Mirrored, page: Mirrored): () => void {
  // After a run of the page's own, what is followed may still be on its way there; meanwhile it would show less.
  let behind = false;

  const missing = (): Message[] => {
    const known = new Set(followed.messages.map(({ id }) => id));
    return page.messages.filter(({ id }) => !known.has(id));
  };
  const show = (): void => {
    if (page.isRunning || behind || page.threadId !== followed.threadId || missing().some(isOwn)) return;
    page.setMessages(followed.messages);
    page.setState(followed.state);
  };
  const caughtUp = (): void => {
    behind &&= missing().length > 0;
    show();
  };
  const lost = (): void => {
    behind = false;
    show();
  };

  const subscriptions = [
    followed.subscribe({ onMessagesChanged: show, onStateChanged: show, onRunFinalized: caughtUp }),
    page.subscribe({
      onRunFinishedEvent: () => void (behind = followed.isRunning || missing().length > 0),
      onRunFailed: lost,
    }),
  ];
  show();
  return () => subscriptions.forEach((each) => each.unsubscribe());
}
