export { textOf, Timeline, type TimelineProps } from "./timeline.js";
export { type Branch, type Stream, useStream, type UseStreamOptions } from "./use-stream.js";
export {
  DynamicRenderer,
  type DynamicRendererProps,
  type InterruptSubmission,
  UnknownWidget,
  useInterruptSubmission,
  type WidgetItem,
  type WidgetProps,
  type Widgets,
} from "./widgets.js";
