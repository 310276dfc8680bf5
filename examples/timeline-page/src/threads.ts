/** Which conversations this browser knows, and which one is shown: `#/approvals/<thread id>`. */
import { useEffect, useSyncExternalStore } from "react";

export const AGENTS = {
  approvals: {
    title: "Approvals",
    tagline: "Pays, buys and publishes, once people agree.",
    examples: ["Review the expenses", "Buy 12 laptops", "Publish: We moved. Visit us in Harbour Street."],
  },
  report: {
    title: "Reports",
    tagline: "Reads eight sources and writes up what they say.",
    examples: ["Report on electric bicycles", "Report on heat pumps"],
  },
} as const;

export type Agent = keyof typeof AGENTS;

export interface Conversation {
  agent: Agent;
  /** Null until something is sent. */
  threadId: string | null;
}

export interface KnownConversation {
  agent: Agent;
  threadId: string;
  title: string;
}

const KEY = "threadwire-timeline-conversations";
const EVENT = "conversations-changed";
const MAX_TITLE = 60;

export function useConversation(): [Conversation, (conversation: Conversation) => void] {
  const hash = useSyncExternalStore(subscribeTo("hashchange"), () => location.hash);
  return [parse(hash), (conversation) => (location.hash = format(conversation))];
}

export function format({ agent, threadId }: Conversation): string {
  return threadId === null ? `#/${agent}` : `#/${agent}/${encodeURIComponent(threadId)}`;
}

function parse(hash: string): Conversation {
  const [, agent = "", threadId] = hash.split("/");
  const known = Object.hasOwn(AGENTS, agent) ? (agent as Agent) : "approvals";
  return { agent: known, threadId: threadId ? decodeURIComponent(threadId) : null };
}

/** The conversations that this browser has opened, newest first. */
export function useKnownConversations(): KnownConversation[] {
  const text = useSyncExternalStore(subscribeTo(EVENT, "storage"), () => read());
  return JSON.parse(text) as KnownConversation[];
}

/** Remember the conversation that is shown, by its first message. */
export function useRemembered({ agent, threadId }: Conversation, title: string | undefined): void {
  useEffect(() => {
    if (threadId === null || title === undefined) return;
    const known = JSON.parse(read()) as KnownConversation[];
    if (known.some((each) => each.threadId === threadId)) return;
    const shortened = title.length > MAX_TITLE ? `${title.slice(0, MAX_TITLE)}…` : title;
    write(JSON.stringify([{ agent, threadId, title: shortened }, ...known]));
    window.dispatchEvent(new Event(EVENT));
  }, [agent, threadId, title]);
}

function read(): string {
  try {
    return localStorage.getItem(KEY) ?? "[]";
  } catch {
    return "[]"; // the browser rejects every write
  }
}

function write(text: string): void {
  try {
    localStorage.setItem(KEY, text);
  } catch {
    // The list is a convenience: without it, the address still names the conversation.
  }
}

function subscribeTo(...events: string[]) {
  return (listener: () => void) => {
    for (const event of events) window.addEventListener(event, listener);
    return () => events.forEach((event) => window.removeEventListener(event, listener));
  };
}
