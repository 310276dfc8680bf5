import { type Stream, textOf, Timeline, UnknownWidget, useStream, type WidgetProps } from "@threadwire/react";
import { useCallback, useEffect, useLayoutEffect, useRef, useState } from "react";

import { BarChart, Progress } from "./charts";
import { Composer } from "./composer";
import { MessageView } from "./message";
import { Question } from "./questions";
import { ConnectionStatus } from "./status";
import { AGENTS, type Conversation, useRemembered } from "./threads";

/** The server that serves this page. */
const SERVER = new URL("..", location.href).href.replace(/\/$/, "");
const WIDGETS = { progress: Progress, "bar-chart": BarChart };
const NEAR_END = 80;

interface Props {
  conversation: Conversation;
  onThreadId: (threadId: string) => void;
}

export function ConversationView({ conversation, onThreadId }: Props) {
  const { agent, threadId } = conversation;
  const stream = useStream({ apiUrl: SERVER, assistantId: agent, threadId, onThreadId, ...settings() });
  const firstMessage = stream.values.blocks.find((block) => block.kind === "message" && block.message.type === "human");
  const title = firstMessage?.kind === "message" ? textOf(firstMessage) : undefined;
  useRemembered(conversation, title);
  const isEmpty = stream.values.blocks.length === 0 && !stream.isThreadLoading;
  return (
    <main>
      <header>
        <h1>{title ?? AGENTS[agent].title}</h1>
        {threadId !== null && <ConnectionStatus connection={stream.connection} />}
      </header>
      <ScrollArea stream={stream}>
        {isEmpty ? <Welcome agent={agent} send={(text) => void send(stream, text)} /> : null}
        {stream.hasEarlier && (
          <button type="button" className="earlier" onClick={() => void stream.loadEarlier()}>
            Show earlier messages
          </button>
        )}
        <Timeline stream={stream} widgets={WIDGETS} fallback={Fallback} message={MessageView} className="timeline" />
        <Outcome stream={stream} />
      </ScrollArea>
      <Composer stream={stream} draftKey={threadId ?? agent} send={(text) => send(stream, text)} />
    </main>
  );
}

/** Every interrupt is drawn as a question, whatever its type. */
function Fallback(props: WidgetProps) {
  return props.block.kind === "interrupt" ? <Question {...props} /> : <UnknownWidget {...props} />;
}

/** What tests and demonstrations may change in the address, such as `?hold`. */
function settings() {
  const query = new URLSearchParams(location.search);
  return {
    ...(query.has("hold") && { partialDisplay: "hold" as const }),
    ...(query.has("idle") && { idleTimeout: Number(query.get("idle")) }),
    ...(query.has("page") && { pageSize: Number(query.get("page")) }),
  };
}

async function send(stream: Stream, text: string): Promise<void> {
  const seconds = new URLSearchParams(location.search).get("seconds"); // how long the report agent reads
  const context = seconds === null ? {} : { context: { seconds: Number(seconds) } };
  const input = { messages: [{ type: "human", content: text }] };
  await stream.submit(input, context).catch(() => undefined); // the block shows the error
}

function Welcome({ agent, send }: { agent: Conversation["agent"]; send: (text: string) => void }) {
  const { title, tagline, examples } = AGENTS[agent];
  return (
    <section className="welcome" aria-label="Welcome">
      <h2>{title}</h2>
      <p>{tagline}</p>
      <div>
        {examples.map((example) => (
          <button key={example} type="button" onClick={() => send(example)}>
            {example}
          </button>
        ))}
      </div>
    </section>
  );
}

/** How the last run ended, unless it succeeded. */
function Outcome({ stream: { ended } }: { stream: Stream }) {
  if (!ended || ended.status === "success") return null;
  const { message } = (ended.error ?? {}) as { message?: string };
  const text = ended.status === "interrupted" ? "Stopped." : `The run failed${message ? `: ${message}` : "."}`;
  return (
    <p className="outcome" role="alert">
      {text}
    </p>
  );
}

/** Stays at the end while the user is there, and never moves what the user is reading. */
function ScrollArea({ stream, children }: { stream: Stream; children: React.ReactNode }) {
  const area = useRef<HTMLDivElement>(null);
  const isAtEnd = useRef(true);
  const [unseen, setUnseen] = useState(0);
  const { blocks } = stream.values;
  const count = useRef(blocks.length);

  const toEnd = useCallback(() => {
    const element = area.current;
    if (element) element.scrollTop = element.scrollHeight;
    setUnseen(0);
  }, []);

  useLayoutEffect(() => {
    const added = blocks.length - count.current;
    count.current = blocks.length;
    if (isAtEnd.current) toEnd();
    else if (added > 0) setUnseen((before) => before + added);
  }, [blocks, toEnd]);

  // A card may grow after it was drawn, as when a text has been wrapped.
  useEffect(() => {
    const observer = new ResizeObserver(() => isAtEnd.current && toEnd());
    if (area.current?.firstElementChild) observer.observe(area.current.firstElementChild);
    return () => observer.disconnect();
  }, [toEnd]);

  useEffect(() => {
    isAtEnd.current = true;
    count.current = 0;
    toEnd();
  }, [stream.threadId, toEnd]);

  const onScroll = () => {
    const { scrollTop, scrollHeight, clientHeight } = area.current!;
    isAtEnd.current = scrollHeight - scrollTop - clientHeight < NEAR_END;
    if (isAtEnd.current) setUnseen(0);
  };
  return (
    <div className="scroll" ref={area} onScroll={onScroll} tabIndex={0} role="region" aria-label="Timeline">
      <div className="column">{children}</div>
      {unseen > 0 && (
        <button type="button" className="below" onClick={toEnd}>
          {unseen} new below
        </button>
      )}
    </div>
  );
}
