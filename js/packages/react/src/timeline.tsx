import type { InterruptBlock, MessageBlock, SelectOptions, TimelineItem } from "@threadwire/timeline";
import { selectTimeline } from "@threadwire/timeline";
import { type NestedItem, nestSubgraphs } from "@threadwire/timeline/nested";
import { type ComponentType, memo, type ReactNode } from "react";

import type { Stream } from "./use-stream.js";
import { DynamicRenderer, InterruptContext, StreamContext, type WidgetItem, type WidgetProps, type Widgets } from "./widgets.js";

export interface TimelineProps extends Omit<SelectOptions, "subgraphs"> {
  stream: Stream;
  /** Where blocks of subgraphs appear: in their place, below the message whose tool calls opened them, or nowhere. */
  subgraphs?: SelectOptions["subgraphs"] | "nested";
  widgets?: Widgets;
  /** Draws a message; by default its text. */
  message?: ComponentType<{ block: MessageBlock }>;
  fallback?: ComponentType<WidgetProps>;
  onWidgetError?: (error: unknown, item: WidgetItem) => void;
  className?: string;
  label?: string;
}

const NO_WIDGETS: Widgets = {};

/** The thread as one list: messages, widgets and interrupts in their order. */
export function Timeline(props: TimelineProps): ReactNode {
  const { stream, widgets = NO_WIDGETS, message = PlainMessage, fallback, onWidgetError, className, label } = props;
  const items = itemsOf(props);
  return (
    <StreamContext.Provider value={stream}>
      <div role="log" aria-live="off" aria-label={label ?? "Conversation"} className={className}>
        {items.map((item) => (
          <Row key={item.id} {...{ item, widgets, message, fallback, onWidgetError }} />
        ))}
      </div>
      <p role="status" className="threadwire-status" style={VISUALLY_HIDDEN}>
        {announcement(stream)}
      </p>
    </StreamContext.Provider>
  );
}

function itemsOf({ stream, subgraphs = "inline", ...options }: TimelineProps): readonly (TimelineItem | NestedItem)[] {
  if (subgraphs === "nested") return nestSubgraphs(selectTimeline(stream.values, options));
  return selectTimeline(stream.values, { ...options, subgraphs });
}

interface RowProps {
  item: TimelineItem | NestedItem;
  widgets: Widgets;
  message: ComponentType<{ block: MessageBlock }>;
  fallback: ComponentType<WidgetProps> | undefined;
  onWidgetError: TimelineProps["onWidgetError"];
}

/** One block. It is drawn again only when the block changes. */
const Row = memo(function Row(props: RowProps): ReactNode {
  const { item, widgets, message: Message, fallback, onWidgetError } = props;
  const optional = { ...(fallback && { fallback }), ...(onWidgetError && { onError: onWidgetError }) };
  const { kind, id } = item;
  return (
    <div data-block={id} data-kind={kind} data-state={stateOf(item)}>
      {kind === "message" ? (
        <Message block={item.block} />
      ) : (
        <InterruptContext.Provider value={kind === "interrupt" ? item.block : undefined}>
          <DynamicRenderer item={item} widgets={widgets} {...optional} />
        </InterruptContext.Provider>
      )}
      {"children" in item && item.children.map((child) => <Row key={child.id} {...props} item={child} />)}
    </div>
  );
});

function stateOf(item: TimelineItem): string | undefined {
  return item.kind === "message" ? item.block.status : item.kind === "interrupt" ? item.block.phase : undefined;
}

/** The text of a message. */
export function textOf({ message: { content } }: MessageBlock): string {
  if (typeof content === "string") return content;
  const parts = Array.isArray(content) ? content : [];
  return parts.map((part) => (typeof part === "string" ? part : textOfPart(part))).join("");
}

function textOfPart(part: unknown): string {
  const { text } = (typeof part === "object" && part !== null ? part : {}) as { text?: unknown };
  return typeof text === "string" ? text : "";
}

function PlainMessage({ block }: { block: MessageBlock }): ReactNode {
  return <p style={{ whiteSpace: "pre-wrap" }}>{textOf(block)}</p>;
}

/** What a screen reader announces. Not the text itself: it would be read token by token. */
function announcement({ interrupts, run, isLoading }: Stream): string {
  const open = interrupts.filter((block: InterruptBlock) => block.phase === "open").length;
  if (open > 0 && !run) return open === 1 ? "Your answer is needed" : `${open} answers are needed`;
  return isLoading ? "The assistant is working" : "";
}

const VISUALLY_HIDDEN = {
  position: "absolute",
  width: 1,
  height: 1,
  margin: -1,
  overflow: "hidden",
  clipPath: "inset(50%)",
  whiteSpace: "nowrap",
} as const;
