import type { ChatKitOptions } from "@openai/chatkit";

import { IconButton } from "./icon-button";
import type { Session } from "./session";
import { useStore } from "./store";

export function Header({ options, session, onHistory }: { options: ChatKitOptions; session: Session; onHistory: () => void }) {
  const { thread, threadId } = useStore(session.shown);
  const { header = {}, history = {} } = options;
  if (header.enabled === false) return null;
  return (
    <header>
      {header.leftAction && <HeaderAction action={header.leftAction} />}
      {header.title?.enabled !== false && <h2>{header.title?.text ?? thread?.title ?? "New conversation"}</h2>}
      {history.enabled !== false && (
        <>
          <IconButton
            icon="compose"
            label="New conversation"
            isDisabled={threadId === null}
            onClick={() => void session.open(null)}
          />
          <IconButton icon="history" label="Conversations" onClick={onHistory} />
        </>
      )}
      {header.rightAction && <HeaderAction action={header.rightAction} />}
    </header>
  );
}

type Action = NonNullable<NonNullable<ChatKitOptions["header"]>["leftAction"]>;

/** A button of the page. Its icon is also its name. */
function HeaderAction({ action: { icon, onClick } }: { action: Action }) {
  const label = icon.replaceAll("-", " ");
  return <IconButton icon={icon} label={label.charAt(0).toUpperCase() + label.slice(1)} onClick={onClick} />;
}
