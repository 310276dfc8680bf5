/** The list of conversations: open, rename, delete. */
import type { HistoryOption } from "@openai/chatkit";
import { type FormEvent, useState } from "react";

import type { History } from "./history";
import { IconButton } from "./icon-button";
import { useStore } from "./store";
import type { Thread } from "./wire";

interface Props {
  options: HistoryOption;
  history: History;
  currentId: string | null;
  onClose: () => void;
  onOpen: (threadId: string) => void;
  onChange: (threadId: string, thread: Thread | null) => void;
}

export function HistoryList({ options, history, currentId, onClose, onOpen, onChange }: Props) {
  const { threads, isLoading, after, error } = useStore(history.listed);
  return (
    <section
      className="history"
      aria-label="Conversations"
      aria-busy={isLoading}
      onKeyDown={({ key }) => key === "Escape" && onClose()}
    >
      <header>
        <IconButton icon="chevron-left" label="Back" onClick={onClose} />
        <h2>Conversations</h2>
      </header>
      {error && <p role="alert">{error}</p>}
      {!isLoading && threads.length === 0 && !error && <p className="empty">There are no conversations yet.</p>}
      <ul>
        {threads.map((thread) => (
          <HistoryRow
            key={thread.id}
            thread={thread}
            options={options}
            isCurrent={thread.id === currentId}
            onOpen={() => onOpen(thread.id)}
            onRename={async (title) => {
              const renamed = await history.rename(thread.id, title);
              if (renamed) onChange(thread.id, renamed);
            }}
            onDelete={async () => {
              if (await history.remove(thread.id)) onChange(thread.id, null);
            }}
          />
        ))}
      </ul>
      {after !== null && (
        <button type="button" className="more" onClick={() => void history.loadMore()}>
          Show more
        </button>
      )}
    </section>
  );
}

interface RowProps {
  thread: Thread;
  options: HistoryOption;
  isCurrent: boolean;
  onOpen: () => void;
  onRename: (title: string) => Promise<void>;
  onDelete: () => Promise<void>;
}

function HistoryRow({ thread, options, isCurrent, onOpen, onRename, onDelete }: RowProps) {
  const [mode, setMode] = useState<"shown" | "renaming" | "deleting">("shown");
  const title = thread.title ?? "Untitled";
  if (mode === "renaming") {
    return (
      <li>
        <TitleForm
          title={title}
          onCancel={() => setMode("shown")}
          onSave={(changed) => void onRename(changed).then(() => setMode("shown"))}
        />
      </li>
    );
  }
  if (mode === "deleting") {
    return (
      <li className="confirm">
        <span>Delete “{title}”?</span>
        <button type="button" className="danger" autoFocus onClick={() => void onDelete().then(() => setMode("shown"))}>
          Delete
        </button>
        <button type="button" onClick={() => setMode("shown")}>
          Keep
        </button>
      </li>
    );
  }
  return (
    <li>
      <button type="button" className="thread" aria-current={isCurrent || undefined} onClick={onOpen}>
        <span>{title}</span>
        <time dateTime={thread.created_at}>{new Date(thread.created_at).toLocaleDateString()}</time>
      </button>
      {options.showRename !== false && (
        <IconButton icon="rename" label={`Rename ${title}`} onClick={() => setMode("renaming")} />
      )}
      {options.showDelete !== false && (
        <IconButton icon="trash" label={`Delete ${title}`} onClick={() => setMode("deleting")} />
      )}
    </li>
  );
}

function TitleForm({ title, onSave, onCancel }: { title: string; onSave: (title: string) => void; onCancel: () => void }) {
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const changed = String(new FormData(event.currentTarget).get("title")).trim();
    if (changed) onSave(changed);
  };
  return (
    <form
      onSubmit={submit}
      onKeyDown={(event) => {
        if (event.key !== "Escape") return;
        event.stopPropagation();
        onCancel();
      }}
    >
      <input name="title" aria-label="Title" defaultValue={title} autoFocus onFocus={({ target }) => target.select()} />
      <button type="submit" className="primary">
        Save
      </button>
    </form>
  );
}
