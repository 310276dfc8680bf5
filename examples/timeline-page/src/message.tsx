import { textOf } from "@threadwire/react";
import type { JsonObject, MessageBlock } from "@threadwire/timeline";
import Markdown from "react-markdown";
import remarkGfm from "remark-gfm";

const PLUGINS = [remarkGfm];

export function MessageView({ block }: { block: MessageBlock }) {
  const { type } = block.message;
  if (type === "human") return block.ns.length > 0 ? <Instruction block={block} /> : <HumanMessage block={block} />;
  if (type === "tool") return <ToolResult block={block} />;
  const text = textOf(block);
  const calls = (block.message.tool_calls ?? []) as JsonObject[];
  const isWaiting = block.status === "streaming" && !text && calls.length === 0;
  return (
    <article className="message ai" aria-label="Assistant">
      {text && <Markdown remarkPlugins={PLUGINS}>{block.status === "streaming" ? closeFence(text) : text}</Markdown>}
      {isWaiting && <span className="dots" aria-label="Writing" />}
      {calls.length > 0 && (
        <ul className="calls" aria-label="Tool calls">
          {calls.map((call, at) => (
            <li key={String(call.id ?? at)}>
              <b>{String(call.name)}</b> {summary(call.args as JsonObject)}
            </li>
          ))}
        </ul>
      )}
      {block.status === "failed" && <p className="state">Stopped here</p>}
    </article>
  );
}

function HumanMessage({ block }: { block: MessageBlock }) {
  const state = { pending: "Sending…", failed: "Not sent. Send it again.", streaming: "", complete: "" }[block.status];
  return (
    <article className="message human" aria-label="You" data-status={block.status}>
      <p>{textOf(block)}</p>
      {state && <p className="state">{state}</p>}
    </article>
  );
}

/** What one agent asks of another. */
function Instruction({ block }: { block: MessageBlock }) {
  return (
    <article className="message tool" aria-label="Instruction">
      <span aria-hidden="true">↳</span> {textOf(block)}
    </article>
  );
}

function ToolResult({ block }: { block: MessageBlock }) {
  const text = textOf(block);
  return (
    <article className="message tool" aria-label="Result">
      <Tick /> {messageOf(text)}
    </article>
  );
}

/** The human-readable text in the result of a department. */
function messageOf(text: string): string {
  try {
    const { message } = JSON.parse(text) as { message?: unknown };
    return typeof message === "string" ? message : text;
  } catch {
    return text;
  }
}

function summary(args: JsonObject | undefined): string {
  return Object.values(args ?? {})
    .map((value) => (typeof value === "object" ? JSON.stringify(value) : String(value)))
    .join(" · ");
}

/** Close a code block that is still being written, so that what follows is not drawn as code. */
function closeFence(text: string): string {
  return (text.match(/^```/gm)?.length ?? 0) % 2 === 1 ? `${text}\n\`\`\`` : text;
}

function Tick() {
  return (
    <svg viewBox="0 0 16 16" width="14" height="14" aria-hidden="true">
      <path d="M3 8.5l3.2 3.2L13 5" fill="none" stroke="currentColor" strokeWidth="2" strokeLinecap="round" />
    </svg>
  );
}
