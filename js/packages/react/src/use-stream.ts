import type { Block, InterruptBlock, Json, JsonObject, Message, UiMessage } from "@threadwire/timeline";
import type {
  ClientOptions,
  Connection,
  ReceivedEvent,
  Responded,
  ServerRun,
  SubmitOptions,
  ThreadSession,
  ThreadView,
  TimelineClient,
} from "@threadwire/timeline/live";
import { useEffect, useMemo, useRef, useState, useSyncExternalStore } from "react";

import { clientFor, keyOf } from "./client.js";

export interface UseStreamOptions extends ClientOptions {
  /** The thread to show; null for a new one, which is created when something is submitted. */
  threadId?: string | null;
  /** Called with the id of a new thread. The thread exists once the server has accepted the first run. */
  onThreadId?: (threadId: string) => void;
}

export interface Stream<State = Json> {
  threadId: string | null;
  values: {
    /** The timeline: the path that is shown. A block that has not changed is the same object as before. */
    blocks: readonly Block[];
    /** The root state without messages, widgets and interrupts. */
    state: State;
    /** @deprecated Use `blocks`, which have an order. */
    messages: Message[];
    /** @deprecated Use `blocks`, which have an order. */
    ui: UiMessage[];
  };
  /** @deprecated Use `values.blocks`. */
  messages: Message[];
  /** @deprecated Use `values.blocks`. */
  ui: UiMessage[];
  /** The branches that forks have left, the oldest first. */
  branches: readonly Branch[];
  /** The interrupts that wait for an answer. */
  interrupts: readonly InterruptBlock[];
  /** The first of them. */
  interrupt: InterruptBlock | undefined;
  run: ServerRun | null;
  /** The run that ended last, until the next one starts. If it failed, it contains the reason. */
  ended: ServerRun | null;
  connection: Connection;
  error: unknown;
  isLoading: boolean;
  isThreadLoading: boolean;
  /** Whether there are blocks before the first one. */
  hasEarlier: boolean;
  /** The last events that arrived, for inspection. */
  events: readonly ReceivedEvent[];
  /** Start a run. Resolves to its id when the server has accepted it. */
  submit(input: Json, options?: SubmitOptions): Promise<string>;
  /** Answer an interrupt: freeze its widget and resume the graph. Without an id, the first one that waits. */
  respond(response: Json, answered?: { interruptId?: string; frozenValue?: Json }): Promise<Responded>;
  submitInterruptResponse(response: Json, answered?: { interruptId?: string; frozenValue?: Json }): Promise<Responded>;
  /** Answer several interrupts in one run: responses by interrupt id. */
  respondAll(responses: Record<string, Json>): Promise<Responded>;
  /** Freeze a widget without answering the graph. */
  completeInterrupt(interruptId: string, frozenValue?: Json): Promise<boolean>;
  joinStream(runId: string, lastEventId?: string): Promise<void>;
  stop(options?: { cancel?: boolean }): Promise<void>;
  loadEarlier(): Promise<boolean>;
  history(limit?: number): Promise<JsonObject[]>;
  /** Start a run from an earlier checkpoint; without input, return to a branch by its id. */
  fork(checkpointId: string, input?: Json, options?: SubmitOptions): Promise<string>;
}

/** Blocks that a fork has hidden, because they are not on its path. */
export interface Branch {
  /** The checkpoint at its end. */
  id: string;
  blocks: readonly Block[];
}

const EMPTY: ThreadView = {
  blocks: [],
  values: {},
  interrupts: [],
  run: null,
  ended: null,
  seq: 0,
  cursor: null,
  lastUpdatedAt: 0,
  connection: { state: "idle", since: 0, attempt: 0, role: "leader" },
  error: undefined,
  isLoading: false,
  isThreadLoading: false,
};
const emptyView = () => EMPTY;
const subscribeToNothing = () => () => undefined;

/** A thread as a timeline, kept up to date. Components that show the same thread share one connection. */
export function useStream<State = Json>(options: UseStreamOptions): Stream<State> {
  const client = useClient(options);
  const [threadId, create] = useThreadId(options);
  const session = threadId === null ? undefined : client.thread(threadId);
  const view = useSyncExternalStore(
    session?.subscribe ?? subscribeToNothing,
    session?.getSnapshot ?? emptyView,
    emptyView,
  );
  const actions = useMemo(() => actionsOf(client, session, create), [client, session, create]);
  return useMemo(() => ({ ...contentOf<State>(view), ...actions, threadId }), [view, actions, threadId]);
}

function useClient(options: UseStreamOptions): TimelineClient {
  const key = keyOf(options);
  const client = useMemo(() => clientFor(options), [key]);
  const { headers, onCustomEvent, onError } = options;
  useEffect(() => {
    client.configure({
      ...(headers && { headers }),
      ...(onCustomEvent && { onCustomEvent }),
      ...(onError && { onError }),
    });
  }, [client, headers, onCustomEvent, onError]);
  return client;
}

/** The thread that is shown, and how to create one. */
function useThreadId({ threadId: given, onThreadId }: UseStreamOptions): [string | null, () => string] {
  const [created, setCreated] = useState<string | null>(null);
  const [last, setLast] = useState(given);
  if (last !== given) {
    setLast(given);
    setCreated(null); // the application shows another thread
  }
  const notify = useRef(onThreadId);
  useEffect(() => {
    notify.current = onThreadId;
  });
  const create = useMemo(
    () => () => {
      const threadId = crypto.randomUUID();
      setCreated(threadId);
      notify.current?.(threadId);
      return threadId;
    },
    [],
  );
  return [given ?? created, create];
}

function contentOf<State>(view: ThreadView) {
  const { values, interrupts, run, ended, before, connection, error, isLoading, isThreadLoading } = view;
  const blocks = view.blocks.filter(({ branchId }) => branchId === undefined);
  const messages = blocks.flatMap((block) => (block.kind === "message" && block.visible ? [block.message] : []));
  const ui = blocks.flatMap((block) => (block.kind === "ui" ? [block.ui] : []));
  return {
    values: { blocks, state: values as State, messages, ui },
    messages,
    ui,
    branches: branchesOf(view.blocks),
    interrupts,
    interrupt: interrupts.find(({ phase }) => phase === "open"),
    run,
    ended,
    connection,
    error,
    isLoading,
    isThreadLoading,
    hasEarlier: before !== undefined,
  };
}

function branchesOf(blocks: readonly Block[]): Branch[] {
  const branches = new Map<string, Block[]>();
  for (const block of blocks) {
    if (block.branchId !== undefined) branches.set(block.branchId, [...(branches.get(block.branchId) ?? []), block]);
  }
  return Array.from(branches, ([id, hidden]) => ({ id, blocks: hidden }));
}

type Actions = Omit<Stream, keyof ReturnType<typeof contentOf> | "threadId">;

function actionsOf(client: TimelineClient, session: ThreadSession | undefined, create: () => string): Actions {
  const existing = (): ThreadSession => {
    if (!session) throw new Error("threadId: nothing has been submitted to the new thread yet");
    return session;
  };
  const respond: Actions["respond"] = async (response, { interruptId, ...answered } = {}) => {
    const id = interruptId ?? existing().getSnapshot().interrupts.find(({ phase }) => phase === "open")?.interruptId;
    if (id === undefined) throw new Error("No interrupt waits for an answer");
    return existing().respond(response, { interruptId: id, ...answered });
  };
  return {
    get events() {
      return session?.events ?? [];
    },
    submit: (input, options) => (session ?? client.thread(create())).submit(input, options),
    respond,
    submitInterruptResponse: respond,
    respondAll: async (responses) => existing().respondAll(responses),
    completeInterrupt: async (interruptId, frozenValue) => existing().completeInterrupt(interruptId, frozenValue),
    joinStream: async (runId, lastEventId) => existing().joinStream(runId, lastEventId),
    stop: async (options) => session?.stop(options),
    loadEarlier: async () => session?.loadEarlier() ?? false,
    history: async (limit) => existing().history(limit),
    fork: async (checkpointId, input, options) => existing().fork(checkpointId, input, options),
  };
}
