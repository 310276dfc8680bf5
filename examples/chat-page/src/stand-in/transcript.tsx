/** The items of a thread, and the agent's current activity. */
import type { ChatKitOptions } from "@openai/chatkit";
import { useEffect, useRef, useState } from "react";

import { Failure } from "./failure";
import { Icon } from "./icons";
import { ItemView, UserMessage } from "./items";
import { MessageActions } from "./message-actions";
import type { Session, Shown } from "./session";
import { useStore } from "./store";
import type { ThreadItem } from "./wire";

const NEAR_THE_END = 60;

export function Transcript({ options, session }: { options: ChatKitOptions; session: Session }) {
  const shown = useStore(session.shown);
  const { scroller, isAtEnd, onScroll, scrollToEnd } = useFollowedEnd(shown, options.thread?.autoScroll !== false);
  const answers = lastAnswers(shown);
  return (
    <div className="scroll" ref={scroller} onScroll={onScroll}>
      <div className="transcript" role="log" aria-label="Conversation" aria-busy={shown.isResponding || shown.isLoading}>
        {shown.isLoading && <Skeleton />}
        {shown.hasEarlier && (
          <button type="button" className="more" onClick={() => void session.loadEarlier()}>
            Show earlier messages
          </button>
        )}
        {shown.items.map((item) => (
          <div key={item.id} className="item" data-item={item.type} data-id={item.id}>
            <ItemView item={item} session={session} isResponding={shown.isResponding} />
            {answers.has(item.id) && item.type === "assistant_message" && (
              <MessageActions item={item} question={answers.get(item.id) ?? null} options={options} session={session} />
            )}
          </div>
        ))}
        {shown.sending && (
          <div className="item" data-item="sending">
            <UserMessage content={shown.sending.content} attachments={[]} quote={shown.sending.quoted_text ?? null} isPending />
          </div>
        )}
        <Activity shown={shown} />
        <Failure session={session} />
      </div>
      {!isAtEnd && (
        <button type="button" className="to-end" aria-label="Scroll to the end" onClick={scrollToEnd}>
          <Icon name="down" />
        </button>
      )}
    </div>
  );
}

/** Scroll to the end while it grows, unless the reader has scrolled up. */
function useFollowedEnd(shown: Shown, isEnabled: boolean) {
  const scroller = useRef<HTMLDivElement>(null);
  const [isAtEnd, setAtEnd] = useState(true);
  const scrollToEnd = () => scroller.current?.scrollTo({ top: scroller.current.scrollHeight });
  const onScroll = () => {
    const { scrollHeight = 0, scrollTop = 0, clientHeight = 0 } = scroller.current ?? {};
    setAtEnd(scrollHeight - scrollTop - clientHeight < NEAR_THE_END);
  };
  // Not after every change: a refresh that finds nothing new must not move what the reader is about to click.
  const { items, progress, isResponding, error } = shown;
  useEffect(() => {
    if (isAtEnd && isEnabled) scrollToEnd();
  }, [items, progress, isResponding, error, isAtEnd, isEnabled]);
  useEffect(() => {
    if (shown.sending) scrollToEnd();
  }, [shown.sending]);
  return { scroller, isAtEnd, onScroll, scrollToEnd };
}

/** The last answer of each turn that is over, with the message that it answers. */
function lastAnswers({ items, isResponding }: Shown): Map<string, string | null> {
  const found = new Map<string, string | null>();
  let question: string | null = null;
  let answer: string | null = null;
  const endTurn = () => {
    if (answer !== null) found.set(answer, question);
    answer = null;
  };
  for (const item of items) {
    if (item.type === "assistant_message") answer = item.id;
    if (item.type !== "user_message") continue;
    endTurn();
    question = item.id;
  }
  if (!isResponding) endTurn();
  return found;
}

/** What the agent is doing before its next text. */
function Activity({ shown: { isResponding, isReconnecting, progress, items } }: { shown: Shown }) {
  if (!isResponding || isReconnecting || isWriting(items.at(-1))) return null;
  if (progress) {
    return (
      <p className="progress" role="status">
        <Icon name={progress.icon ?? "sparkle"} />
        <span>{progress.text}</span>
      </p>
    );
  }
  return <p className="dots" role="status" aria-label="Thinking" />;
}

const isWriting = (item: ThreadItem | undefined): boolean =>
  item?.type === "assistant_message" && item.content.some(({ text }) => text);

function Skeleton() {
  return (
    <div className="skeleton" aria-label="Loading">
      <i />
      <i />
      <i />
    </div>
  );
}
