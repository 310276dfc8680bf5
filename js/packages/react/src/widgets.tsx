/** Widgets of graphs and interrupts, drawn by components of the application. */
import type { Block, InterruptBlock, Json, TimelineItem } from "@threadwire/timeline";
import { Component, type ComponentType, createContext, type ReactNode, useContext, useMemo } from "react";

import type { Stream } from "./use-stream.js";

export interface WidgetProps {
  /** The props of a widget, or the value of an interrupt; once it is answered, what its widget showed. */
  value: Json;
  /** Whether nothing can be entered any more. */
  readOnly: boolean;
  block: Block;
  /** What the graph was resumed with. */
  response?: Json;
}

/** The application's components, by the `name` of a UI message and the `type` of an interrupt's value. */
export type Widgets = Record<string, ComponentType<WidgetProps>>;

export type WidgetItem = Exclude<TimelineItem, { kind: "message" }>;

export interface DynamicRendererProps {
  item: WidgetItem;
  widgets: Widgets;
  /** Draws a block for which no widget is registered. */
  fallback?: ComponentType<WidgetProps>;
  /** Called when a widget throws. A card with its data replaces it. */
  onError?: (error: unknown, item: WidgetItem) => void;
}

/** Draws a widget or an interrupt with the component that is registered for it. Loads no code. */
export function DynamicRenderer({ item, widgets, fallback = UnknownWidget, onError }: DynamicRendererProps): ReactNode {
  const { type, props: value } = item.node;
  const Widget = (Object.hasOwn(widgets, type) ? widgets[type] : undefined) ?? fallback;
  const readOnly = item.kind === "ui" || item.node.readOnly;
  const response = item.kind === "interrupt" && item.node.response !== undefined ? { response: item.node.response } : {};
  return (
    <WidgetBoundary rev={item.block.rev} name={type} value={value} onError={(error) => onError?.(error, item)}>
      <Widget value={value} readOnly={readOnly} block={item.block} {...response} />
    </WidgetBoundary>
  );
}

/** A labelled card with the data of a widget that the application does not know. */
export function UnknownWidget({ value, block }: WidgetProps): ReactNode {
  const name = block.kind === "ui" ? String(block.ui.name) : "question";
  return <Card label={`Unknown widget: ${name}`} value={value} />;
}

function Card({ label, value }: { label: string; value: Json }): ReactNode {
  return (
    <details className="threadwire-fallback">
      <summary>{label}</summary>
      <pre>{JSON.stringify(value, null, 2)}</pre>
    </details>
  );
}

interface BoundaryProps {
  rev: number;
  name: string;
  value: Json;
  onError: (error: unknown) => void;
  children: ReactNode;
}

/** Contains the failure of one widget. The next change of its block tries again. */
class WidgetBoundary extends Component<BoundaryProps, { hasFailed: boolean }> {
  override state = { hasFailed: false };

  static getDerivedStateFromError(): { hasFailed: boolean } {
    return { hasFailed: true };
  }

  override componentDidCatch(error: unknown): void {
    this.props.onError(error);
  }

  override componentDidUpdate({ rev }: BoundaryProps): void {
    if (this.state.hasFailed && rev !== this.props.rev) this.setState({ hasFailed: false });
  }

  override render(): ReactNode {
    const { name, value, children } = this.props;
    return this.state.hasFailed ? <Card label={`This widget failed: ${name}`} value={value} /> : children;
  }
}

// -- submitting ------------------------------------------------------------------------------------------------------

export interface InterruptSubmission {
  isSubmitting: boolean;
  readOnly: boolean;
  /** Why the server rejected the last answer. */
  error: string | undefined;
  /** Answer the graph. `frozenValue` is what the widget shows from now on. */
  submit(response: Json, frozenValue?: Json): Promise<boolean>;
  /** Freeze the widget without an answer. */
  freeze(frozenValue?: Json): Promise<boolean>;
}

export const StreamContext = createContext<Stream | undefined>(undefined);
export const InterruptContext = createContext<InterruptBlock | undefined>(undefined);

/** How the widget of an interrupt submits its answer. For components inside `<Timeline>`. */
export function useInterruptSubmission(): InterruptSubmission {
  const stream = useContext(StreamContext);
  const block = useContext(InterruptContext);
  if (!stream || !block) throw new Error("useInterruptSubmission requires an interrupt's widget inside <Timeline>");
  return useMemo(() => {
    const { interruptId, phase, error } = block;
    return {
      isSubmitting: phase === "submitting",
      readOnly: phase !== "open",
      error,
      async submit(response, frozenValue) {
        const frozen = frozenValue === undefined ? {} : { frozenValue };
        try {
          return (await stream.respond(response, { interruptId, ...frozen })).accepted;
        } catch {
          return false; // the block has the error
        }
      },
      freeze: (frozenValue) => stream.completeInterrupt(interruptId, frozenValue),
    };
  }, [stream, block]);
}
