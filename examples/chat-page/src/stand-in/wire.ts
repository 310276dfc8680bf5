/** ChatKit's protocol on the wire. The package declares options, attachments and widgets; this is the rest. */
import type { Attachment, ToolChoice, UserMessageContent, Widgets } from "@openai/chatkit";

export interface Page<T> {
  data: T[];
  has_more: boolean;
  after?: string;
}

export interface Thread {
  id: string;
  title?: string;
  created_at: string;
  status: { type: "active" | "locked" | "closed"; reason?: string };
  items: Page<ThreadItem>;
}

interface BaseItem {
  id: string;
  thread_id: string;
  created_at: string;
}

export interface UserMessageItem extends BaseItem {
  type: "user_message";
  content: UserMessageContent[];
  attachments: Attachment[];
  quoted_text?: string;
}

export interface Source {
  type: "url" | "file" | "entity";
  title: string;
  url?: string;
  filename?: string;
  description?: string;
}

export interface Annotation {
  type: "annotation";
  source: Source;
  index?: number;
}

export interface TextContent {
  type: "output_text";
  text: string;
  annotations: Annotation[];
}

export interface AssistantMessageItem extends BaseItem {
  type: "assistant_message";
  content: TextContent[];
}

export interface Task {
  type: "custom" | "web_search" | "thought" | "file" | "image";
  status_indicator?: "none" | "loading" | "complete";
  title?: string;
  icon?: string;
  content?: string;
  queries?: string[];
  sources?: Source[];
}

export interface Workflow {
  type: "custom" | "reasoning";
  tasks: Task[];
  summary?: { title: string; icon?: string } | { duration: number };
  expanded?: boolean;
}

export interface WorkflowItem extends BaseItem {
  type: "workflow";
  workflow: Workflow;
}

export interface TaskItem extends BaseItem {
  type: "task";
  task: Task;
}

export type WidgetRoot = Widgets.Card | Widgets.ListView | Widgets.BasicRoot;

export interface WidgetItem extends BaseItem {
  type: "widget";
  widget: WidgetRoot;
  copy_text?: string;
}

export interface GeneratedImageItem extends BaseItem {
  type: "generated_image";
  image?: { id: string; url: string };
}

export interface ClientToolCallItem extends BaseItem {
  type: "client_tool_call";
  status: "pending" | "completed";
  call_id: string;
  name: string;
  arguments: Record<string, unknown>;
}

export interface InputAnswer {
  values: string[];
  skipped: boolean;
}

export type StructuredQuestion = { id: string; question: string; answer?: InputAnswer } & (
  | { type: "multiple_choice"; options: { value: string }[]; multiple: boolean }
  | { type: "freeform"; description?: string }
);

export interface StructuredInputItem extends BaseItem {
  type: "structured_input";
  status: "pending" | "answered" | "skipped";
  inputs: StructuredQuestion[];
}

export interface EndOfTurnItem extends BaseItem {
  type: "end_of_turn";
}

export type ThreadItem =
  | UserMessageItem
  | AssistantMessageItem
  | WorkflowItem
  | TaskItem
  | WidgetItem
  | GeneratedImageItem
  | ClientToolCallItem
  | StructuredInputItem
  | EndOfTurnItem;

export type ItemUpdate =
  | { type: "assistant_message.content_part.added"; content_index: number; content: TextContent }
  | { type: "assistant_message.content_part.text_delta"; content_index: number; delta: string }
  | { type: "assistant_message.content_part.annotation_added"; content_index: number; annotation: Annotation }
  | { type: "assistant_message.content_part.done"; content_index: number; content: TextContent }
  | { type: "widget.streaming_text.value_delta"; component_id: string; delta: string; done: boolean }
  | { type: "widget.component.updated"; component_id: string; component: Widgets.WidgetComponent }
  | { type: "widget.root.updated"; widget: WidgetRoot }
  | { type: "workflow.task.added" | "workflow.task.updated"; task_index: number; task: Task }
  | { type: "generated_image.updated"; image: { id: string; url: string }; progress?: number };

export interface Progress {
  text: string;
  icon?: string;
}

export interface Notice {
  level: "info" | "warning" | "danger";
  message: string;
  title?: string;
}

export type StreamEvent =
  | { type: "thread.created" | "thread.updated"; thread: Thread }
  | { type: "thread.item.added" | "thread.item.done" | "thread.item.replaced"; item: ThreadItem }
  | { type: "thread.item.updated"; item_id: string; update: ItemUpdate }
  | { type: "thread.item.removed"; item_id: string }
  | { type: "stream_options"; stream_options: { allow_cancel: boolean } }
  | ({ type: "progress_update" } & Progress)
  | { type: "client_effect"; name: string; data?: Record<string, unknown> }
  | { type: "error"; code: string; message?: string; allow_retry: boolean }
  | ({ type: "notice" } & Notice);

export interface UserMessageInput {
  content: UserMessageContent[];
  attachments: string[];
  quoted_text?: string;
  inference_options: { model?: string; tool_choice?: ToolChoice };
}

export interface Action {
  type: string;
  payload?: Record<string, unknown>;
}

/** An action as widgets configure it. The package declares only its first two fields. */
export interface ActionConfig extends Action {
  handler?: "server" | "client";
  streaming?: boolean;
}
