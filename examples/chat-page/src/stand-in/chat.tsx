/** The whole element: a header, and the conversation or the list of conversations. */
import type { ChatKitOptions } from "@openai/chatkit";

import { Composer } from "./composer";
import type { Draft } from "./draft";
import { Failure } from "./failure";
import { Header } from "./header";
import type { History } from "./history";
import { HistoryList } from "./history-list";
import { IconButton } from "./icon-button";
import type { Session } from "./session";
import { StartScreen } from "./start-screen";
import { useStore } from "./store";
import { StructuredInput } from "./structured-input";
import { Transcript } from "./transcript";

interface Props {
  options: ChatKitOptions;
  session: Session;
  draft: Draft;
  history: History;
  onHistory: (isOpen: boolean) => Promise<void>;
  onTool: (toolId: string | null) => void;
}

export function Chat({ options, session, draft, history, onHistory, onTool }: Props) {
  const shown = useStore(session.shown);
  const { isOpen } = useStore(history.listed);
  if (isOpen) {
    return (
      <HistoryList
        options={options.history ?? {}}
        history={history}
        currentId={shown.threadId}
        onClose={() => void onHistory(false)}
        onOpen={(threadId) => void onHistory(false).then(() => session.open(threadId))}
        onChange={(threadId, thread) => session.threadChanged(threadId, thread)}
      />
    );
  }
  const question = shown.items.findLast((item) => item.type === "structured_input" && item.status === "pending");
  const isNew = shown.threadId === null && shown.items.length === 0 && shown.sending === null;
  return (
    <>
      <Header options={options} session={session} onHistory={() => void onHistory(true)} />
      {isNew ? (
        <StartScreen options={options.startScreen ?? {}} onPrompt={(content) => void session.send(messageWith(content))} />
      ) : (
        <Transcript key={shown.threadId} options={options} session={session} />
      )}
      <footer>
        {isNew && <Failure session={session} />}
        {shown.isReconnecting && (
          <p className="connection" role="status">
            Reconnecting…
          </p>
        )}
        {shown.notices.map((notice, at) => (
          <div key={at} className="notice" data-level={notice.level} role="status">
            <span>
              {notice.title && <b>{notice.title} </b>}
              {notice.message}
            </span>
            <IconButton icon="close" label="Dismiss" onClick={() => session.dismissNotice(notice)} />
          </div>
        ))}
        {question?.type === "structured_input" && !shown.isResponding ? (
          <StructuredInput
            key={question.id}
            item={question}
            onAnswer={(answers) => void session.answer(question.id, answers)}
          />
        ) : (
          <Composer options={options} session={session} draft={draft} onTool={onTool} />
        )}
        {options.disclaimer && <p className="disclaimer">{options.disclaimer.text}</p>}
      </footer>
    </>
  );
}

const messageWith = (content: Parameters<Session["send"]>[0]["content"]): Parameters<Session["send"]>[0] => ({
  content,
  attachments: [],
  inference_options: {},
});
