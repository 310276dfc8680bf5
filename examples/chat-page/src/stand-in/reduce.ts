/** The items of a thread after an event. A pure function, so that a repeated response changes nothing. */
import type { AssistantMessageItem, ItemUpdate, StreamEvent, TextContent, ThreadItem, WidgetItem, WorkflowItem } from "./wire";

export function reduceItems(items: ThreadItem[], event: StreamEvent): ThreadItem[] {
  switch (event.type) {
    case "thread.item.added":
    case "thread.item.done":
    case "thread.item.replaced":
      return put(items, event.item);
    case "thread.item.updated":
      return items.map((item) => (item.id === event.item_id ? updated(item, event.update) : item));
    case "thread.item.removed":
      return items.filter((item) => item.id !== event.item_id);
    default:
      return items;
  }
}

function put(items: ThreadItem[], item: ThreadItem): ThreadItem[] {
  const isKnown = items.some(({ id }) => id === item.id);
  return isKnown ? items.map((each) => (each.id === item.id ? item : each)) : [...items, item];
}

/** The older items that were loaded before, followed by the newest page as the server has it now. Returns the same
 * array if nothing has changed, so that nothing is drawn or scrolled. */
export function withNewestPage(items: ThreadItem[], newest: ThreadItem[]): ThreadItem[] {
  const first = items.findIndex(({ id }) => id === newest[0]?.id);
  const merged = first === -1 ? newest : [...items.slice(0, first), ...newest];
  return JSON.stringify(merged) === JSON.stringify(items) ? items : merged;
}

function updated(item: ThreadItem, update: ItemUpdate): ThreadItem {
  switch (item.type) {
    case "assistant_message":
      return updatedMessage(item, update);
    case "workflow":
      return updatedWorkflow(item, update);
    case "widget":
      return updatedWidget(item, update);
    case "generated_image":
      return update.type === "generated_image.updated" ? { ...item, image: update.image } : item;
    default:
      return item;
  }
}

function updatedMessage(item: AssistantMessageItem, update: ItemUpdate): AssistantMessageItem {
  const change = (at: number, part: (before: TextContent) => TextContent): AssistantMessageItem => {
    const content = [...item.content];
    content[at] = part(content[at] ?? { type: "output_text", text: "", annotations: [] });
    return { ...item, content };
  };
  switch (update.type) {
    case "assistant_message.content_part.added":
    case "assistant_message.content_part.done":
      return change(update.content_index, () => update.content);
    case "assistant_message.content_part.text_delta":
      return change(update.content_index, (part) => ({ ...part, text: part.text + update.delta }));
    case "assistant_message.content_part.annotation_added":
      return change(update.content_index, (part) => ({ ...part, annotations: [...part.annotations, update.annotation] }));
    default:
      return item;
  }
}

function updatedWorkflow(item: WorkflowItem, update: ItemUpdate): WorkflowItem {
  if (update.type !== "workflow.task.added" && update.type !== "workflow.task.updated") return item;
  const tasks = [...item.workflow.tasks];
  tasks[update.task_index] = update.task;
  return { ...item, workflow: { ...item.workflow, tasks } };
}

function updatedWidget(item: WidgetItem, update: ItemUpdate): WidgetItem {
  switch (update.type) {
    case "widget.root.updated":
      return { ...item, widget: update.widget };
    case "widget.component.updated":
      return { ...item, widget: withComponent(item.widget, update.component_id, () => update.component) };
    case "widget.streaming_text.value_delta":
      return {
        ...item,
        widget: withComponent(item.widget, update.component_id, (component) => ({
          ...component,
          value: String("value" in component ? component.value : "") + update.delta,
        })),
      };
    default:
      return item;
  }
}

/** A copy of a widget in which one component was changed. */
function withComponent<T extends object>(node: T, id: string, change: (component: object) => object): T {
  if ("id" in node && node.id === id) return change(node) as T;
  if (!("children" in node)) return node;
  const { children } = node;
  const changed = Array.isArray(children)
    ? children.map((child: object) => withComponent(child, id, change))
    : withComponent(children as object, id, change);
  return { ...node, children: changed };
}
