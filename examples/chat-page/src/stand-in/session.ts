/** A conversation with the server: the thread that is shown, its items, and the response that is streamed. */
import type { ChatKitEvents, ChatKitOptions } from "@openai/chatkit";

import { Api, Rejected } from "./api";
import { reduceItems, withNewestPage } from "./reduce";
import { Store } from "./store";
import type {
  Action,
  ActionConfig,
  ClientToolCallItem,
  InputAnswer,
  Notice,
  Page,
  Progress,
  StreamEvent,
  Thread,
  ThreadItem,
  UserMessageInput,
  WidgetItem,
} from "./wire";

const PAGE = 50;
const RETRY_DELAYS = [300, 600, 1_200, 2_400, 4_800, 5_000, 5_000, 5_000, 5_000, 5_000];
const UNREACHABLE = "The server cannot be reached.";
const FAILED = "Something went wrong.";

export interface Shown {
  threadId: string | null;
  thread: Thread | null;
  items: ThreadItem[];
  hasEarlier: boolean;
  isLoading: boolean;
  /** What was sent and is not an item yet. */
  sending: UserMessageInput | null;
  isResponding: boolean;
  allowCancel: boolean;
  isReconnecting: boolean;
  progress: Progress | null;
  notices: Notice[];
  error: { message: string; allowRetry: boolean } | null;
  /** By item. ChatKit does not load feedback, so a reload forgets it. */
  feedback: Record<string, "positive" | "negative">;
}

const EMPTY: Shown = {
  threadId: null,
  thread: null,
  items: [],
  hasEarlier: false,
  isLoading: false,
  sending: null,
  isResponding: false,
  allowCancel: false,
  isReconnecting: false,
  progress: null,
  notices: [],
  error: null,
  feedback: {},
};

type Detail<Name extends keyof ChatKitEvents> = ChatKitEvents[Name]["detail"];

/** Dispatches one of ChatKit's events. */
export type Emit = <Name extends keyof ChatKitEvents>(
  name: Name,
  ...detail: Detail<Name> extends void ? [] : [Detail<Name>]
) => void;

export class Session {
  readonly shown = new Store<Shown>(EMPTY);
  #api: Api;
  #options: ChatKitOptions;
  #emit: Emit;
  #response: AbortController | null = null;

  constructor(api: Api, options: ChatKitOptions, emit: Emit) {
    this.#api = api;
    this.#options = options;
    this.#emit = emit;
  }

  get api(): Api {
    return this.#api;
  }

  get options(): ChatKitOptions {
    return this.#options;
  }

  /** Use other options for the same conversation. */
  configure(options: ChatKitOptions, api: Api): void {
    this.#options = options;
    this.#api = api;
  }

  // -- threads -------------------------------------------------------------------------------------------------------

  /** Show a thread, or a new one. A response that is still being streamed is no longer read. */
  async open(threadId: string | null): Promise<void> {
    this.#leaveResponse();
    const changes = threadId !== this.shown.get().threadId;
    this.shown.set({ ...EMPTY, threadId, isLoading: threadId !== null });
    if (changes) this.#emit("chatkit.thread.change", { threadId });
    if (threadId === null) return;
    this.#emit("chatkit.thread.load.start", { threadId });
    try {
      await this.#loadNewest(threadId);
    } catch (error) {
      if (this.shown.get().threadId !== threadId) return;
      this.shown.set({ isLoading: false });
      this.#failed(error, { allowRetry: false });
    }
    this.#emit("chatkit.thread.load.end", { threadId });
  }

  /** Load what has changed. A response that is streamed here is already up to date. */
  async refresh(): Promise<void> {
    const { threadId, isResponding, isLoading } = this.shown.get();
    if (threadId !== null && !isResponding && !isLoading) await this.#loadNewest(threadId);
  }

  async #loadNewest(threadId: string): Promise<void> {
    const [thread, page] = await Promise.all([
      this.#api.call<Thread>("threads.get_by_id", { thread_id: threadId }),
      this.#items(threadId),
    ]);
    const { threadId: current, isResponding, items, hasEarlier } = this.shown.get();
    if (current !== threadId || isResponding) return;
    const newest = page.data.toReversed();
    const merged = withNewestPage(items, newest);
    const keepsEarlier = merged.length > newest.length;
    this.shown.set({ thread, items: merged, hasEarlier: keepsEarlier ? hasEarlier : page.has_more, isLoading: false });
    await this.#callClientTool();
  }

  #items(threadId: string, after?: string): Promise<Page<ThreadItem>> {
    return this.#api.call("items.list", { thread_id: threadId, limit: PAGE, order: "desc", ...(after && { after }) });
  }

  async loadEarlier(): Promise<void> {
    const { threadId, items } = this.shown.get();
    const page = await this.#items(threadId ?? "", items[0]?.id);
    if (this.shown.get().threadId !== threadId) return;
    this.shown.set({ items: [...page.data.toReversed(), ...this.shown.get().items], hasEarlier: page.has_more });
  }

  /** The thread was renamed or deleted in the list of threads. */
  threadChanged(threadId: string, thread: Thread | null): void {
    if (threadId !== this.shown.get().threadId) return;
    if (thread === null) void this.open(null);
    else this.shown.set({ thread });
  }

  // -- what people do ------------------------------------------------------------------------------------------------

  /** Returns whether the server has accepted the message. */
  async send(input: UserMessageInput): Promise<boolean> {
    const { threadId, isResponding } = this.shown.get();
    if (isResponding) return false;
    this.shown.set({ sending: input });
    return threadId === null
      ? this.#respond("threads.create", { input })
      : this.#respond("threads.add_user_message", { thread_id: threadId, input });
  }

  async retry(itemId: string): Promise<void> {
    await this.#respond("threads.retry_after_item", { thread_id: this.shown.get().threadId, item_id: itemId });
  }

  async answer(itemId: string, answers: Record<string, InputAnswer> | null): Promise<void> {
    const input = { status: answers === null ? "skipped" : "answered", answers: answers ?? {} };
    await this.#respond("threads.add_structured_input", { thread_id: this.shown.get().threadId, item_id: itemId, input });
  }

  /** Execute an action of a widget: in the page or on the server, as the action is configured. */
  async act(config: ActionConfig, item: WidgetItem): Promise<void> {
    const action: Action = { type: config.type, ...(config.payload && { payload: config.payload }) };
    if (config.handler === "client") await this.#options.widgets?.onAction?.(action, item);
    else if (config.streaming === false) await this.#actNow(action, item);
    else await this.sendAction(action, item.id);
  }

  async sendAction(action: Action, itemId?: string): Promise<void> {
    const of = itemId === undefined ? {} : { item_id: itemId };
    await this.#respond("threads.custom_action", { thread_id: this.shown.get().threadId, ...of, action });
  }

  async #actNow(action: Action, item: WidgetItem): Promise<void> {
    const params = { thread_id: this.shown.get().threadId, item_id: item.id, action };
    const result = await this.#api.call<{ updated_item?: ThreadItem }>("threads.sync_custom_action", params);
    if (result.updated_item) this.#apply({ type: "thread.item.replaced", item: result.updated_item });
  }

  async giveFeedback(itemId: string, kind: "positive" | "negative"): Promise<void> {
    try {
      await this.#api.call("items.feedback", { thread_id: this.shown.get().threadId, item_ids: [itemId], kind });
      this.shown.set({ feedback: { ...this.shown.get().feedback, [itemId]: kind } });
    } catch (error) {
      this.#failed(error, { allowRetry: false });
    }
  }

  dismissNotice(notice: Notice): void {
    this.shown.set({ notices: this.shown.get().notices.filter((each) => each !== notice) });
  }

  // -- responses -----------------------------------------------------------------------------------------------------

  /** Stop reading the response. If the agent allows it, this also stops the run. */
  stop(): void {
    this.#leaveResponse();
    this.#responded();
  }

  #leaveResponse(): void {
    this.#response?.abort();
    this.#response = null;
  }

  /** Receive a response. Returns false if the server does not have the message that it should respond to. */
  async #respond(type: string, params: object): Promise<boolean> {
    if (this.shown.get().isResponding) return false;
    const response = (this.#response = new AbortController());
    this.shown.set({ isResponding: true, error: null, notices: [], progress: null, allowCancel: false });
    this.#emit("chatkit.response.start");
    let isAccepted = true;
    try {
      await this.#receive(type, params, response.signal);
    } catch (error) {
      if (response !== this.#response) return true;
      isAccepted = this.shown.get().sending === null;
      this.#failed(error, { allowRetry: isAccepted && !(error instanceof Rejected) });
    }
    if (response !== this.#response) return true;
    this.#response = null;
    this.#responded();
    await this.#callClientTool();
    return isAccepted;
  }

  #failed(error: unknown, { allowRetry }: { allowRetry: boolean }): void {
    const message = textOf(error);
    this.shown.set({ error: { message, allowRetry } });
    this.#emit("chatkit.error", { error: error instanceof Error ? error : new Error(message) });
  }

  #responded(): void {
    this.shown.set({ isResponding: false, isReconnecting: false, progress: null, sending: null });
    this.#emit("chatkit.response.end");
  }

  /** Receive a response to its end. After a lost connection the same request is repeated: its key makes sure that
   * only one run is started, and the same events are sent again. */
  async #receive(type: string, params: object, signal: AbortSignal): Promise<void> {
    const key = crypto.randomUUID();
    for (let attempt = 0; ; attempt++) {
      try {
        for await (const event of this.#api.stream(type, params, key, signal)) {
          if (signal.aborted) return;
          attempt = 0;
          this.#handle(event);
        }
        return;
      } catch (error) {
        const delay = RETRY_DELAYS[attempt];
        if (signal.aborted) return;
        if (error instanceof Rejected) throw error;
        if (delay === undefined) throw new Error(UNREACHABLE, { cause: error });
        this.shown.set({ isReconnecting: true });
        await new Promise((resolve) => setTimeout(resolve, delay));
      }
    }
  }

  #handle(event: StreamEvent): void {
    if (this.shown.get().isReconnecting) this.shown.set({ isReconnecting: false });
    switch (event.type) {
      case "thread.created":
        this.shown.set({ thread: event.thread, threadId: event.thread.id });
        return this.#emit("chatkit.thread.change", { threadId: event.thread.id });
      case "thread.updated":
        return this.shown.set({ thread: event.thread });
      case "stream_options":
        return this.shown.set({ allowCancel: event.stream_options.allow_cancel });
      case "progress_update":
        return this.shown.set({ progress: { text: event.text, ...(event.icon && { icon: event.icon }) } });
      case "client_effect":
        return this.#emit("chatkit.effect", { name: event.name, ...(event.data && { data: event.data }) });
      case "notice":
        return this.shown.set({ notices: [...this.shown.get().notices, event] });
      case "error":
        return this.shown.set({ error: { message: event.message ?? FAILED, allowRetry: event.allow_retry } });
      default:
        return this.#apply(event);
    }
  }

  #apply(event: StreamEvent): void {
    const items = reduceItems(this.shown.get().items, event);
    const isOwn = event.type === "thread.item.done" && event.item.type === "user_message";
    this.shown.set({ items, ...(isOwn && { sending: null }) });
  }

  /** A call of a tool in the page is the last item of its turn, and the page's result starts the next one. */
  async #callClientTool(): Promise<void> {
    const { items, threadId } = this.shown.get();
    const call = items.at(-1);
    const { onClientTool } = this.#options;
    if (!isPendingCall(call) || !onClientTool) return;
    const result = await onClientTool({ name: call.name, params: call.arguments });
    await this.#respond("threads.add_client_tool_output", { thread_id: threadId, result });
  }
}

const isPendingCall = (item: ThreadItem | undefined): item is ClientToolCallItem =>
  item?.type === "client_tool_call" && item.status === "pending";

const textOf = (error: unknown): string =>
  error instanceof TypeError ? UNREACHABLE : error instanceof Error ? error.message : FAILED;
