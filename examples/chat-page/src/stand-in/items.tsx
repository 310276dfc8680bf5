/** One item of a thread. */
import type { Attachment, UserMessageContent } from "@openai/chatkit";

import { textOf } from "./draft";
import { Icon } from "./icons";
import { Markdown } from "./markdown";
import type { Session } from "./session";
import { WidgetView } from "./widget";
import type { Source, StructuredInputItem, TextContent, ThreadItem } from "./wire";
import { TaskView, WorkflowView } from "./workflow";

export function ItemView({ item, session, isResponding }: { item: ThreadItem; session: Session; isResponding: boolean }) {
  switch (item.type) {
    case "user_message":
      return <UserMessage content={item.content} attachments={item.attachments} quote={item.quoted_text ?? null} />;
    case "assistant_message":
      return <AssistantMessage content={item.content} />;
    case "workflow":
      return <WorkflowView workflow={item.workflow} />;
    case "task":
      return <TaskView task={item.task} />;
    case "widget":
      return <WidgetView item={item} isResponding={isResponding} onAction={(action) => session.act(action, item)} />;
    case "generated_image":
      return item.image ? <img className="generated" src={item.image.url} alt="Generated" /> : <div className="skeleton" />;
    case "structured_input":
      return item.status === "pending" ? null : <Answers item={item} />;
    case "client_tool_call":
    case "end_of_turn":
      return null;
  }
}

interface UserMessageProps {
  content: UserMessageContent[];
  attachments: Attachment[];
  quote: string | null;
  isPending?: boolean;
}

export function UserMessage({ content, attachments, quote, isPending = false }: UserMessageProps) {
  const text = textOf(content);
  return (
    <article className="user" aria-label="You" aria-busy={isPending || undefined}>
      {attachments.length > 0 && (
        <ul className="files" aria-label="Attachments">
          {attachments.map((each) => (
            <li key={each.id}>
              {each.type === "image" ? <img src={each.preview_url} alt={each.name} /> : <FileChip name={each.name} />}
            </li>
          ))}
        </ul>
      )}
      {quote && <blockquote>{quote}</blockquote>}
      {text && <p>{text}</p>}
    </article>
  );
}

function FileChip({ name }: { name: string }) {
  return (
    <span className="file">
      <Icon name="file" />
      {name}
    </span>
  );
}

function AssistantMessage({ content }: { content: TextContent[] }) {
  const sources = content.flatMap(({ annotations }) => annotations.map(({ source }) => source));
  return (
    <article className="assistant" aria-label="Assistant">
      {content.map(({ text }, at) => (
        <Markdown key={at} text={text} />
      ))}
      {sources.length > 0 && <Sources sources={sources} />}
    </article>
  );
}

export function Sources({ sources }: { sources: Source[] }) {
  return (
    <ul className="sources" aria-label="Sources">
      {sources.map((source, at) => (
        <li key={at}>
          {source.url ? (
            <a href={source.url} target="_blank" rel="noreferrer">
              {source.title}
            </a>
          ) : (
            (source.filename ?? source.title)
          )}
        </li>
      ))}
    </ul>
  );
}

/** Questions of the composer and their answers. */
function Answers({ item }: { item: StructuredInputItem }) {
  return (
    <dl className="answers" aria-label="Answers">
      {item.inputs.map(({ id, question, answer }) => (
        <div key={id}>
          <dt>{question}</dt>
          <dd>{!answer || answer.skipped ? "Skipped" : answer.values.join(", ")}</dd>
        </div>
      ))}
    </dl>
  );
}
