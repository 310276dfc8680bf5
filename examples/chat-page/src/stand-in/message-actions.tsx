/** What people can do with an answer: copy it, rate it, ask for another. */
import type { ChatKitOptions } from "@openai/chatkit";
import { useState } from "react";

import { IconButton } from "./icon-button";
import type { Session } from "./session";
import { useStore } from "./store";
import type { AssistantMessageItem } from "./wire";

interface Props {
  item: AssistantMessageItem;
  /** The message that it answers. */
  question: string | null;
  options: ChatKitOptions;
  session: Session;
}

export function MessageActions({ item, question, options: { threadItemActions = {} }, session }: Props) {
  const { feedback, isResponding } = useStore(session.shown);
  const [isCopied, setCopied] = useState(false);
  const copy = () =>
    void navigator.clipboard.writeText(item.content.map(({ text }) => text).join("")).then(() => setCopied(true));
  return (
    <div className="actions">
      <IconButton icon={isCopied ? "check" : "copy"} label={isCopied ? "Copied" : "Copy"} onClick={copy} />
      {threadItemActions.feedback && (
        <>
          <IconButton
            icon="thumbs-up"
            label="Good response"
            isPressed={feedback[item.id] === "positive"}
            onClick={() => void session.giveFeedback(item.id, "positive")}
          />
          <IconButton
            icon="thumbs-down"
            label="Bad response"
            isPressed={feedback[item.id] === "negative"}
            onClick={() => void session.giveFeedback(item.id, "negative")}
          />
        </>
      )}
      {threadItemActions.retry && question && (
        <IconButton icon="reload" label="Retry" isDisabled={isResponding} onClick={() => void session.retry(question)} />
      )}
    </div>
  );
}
