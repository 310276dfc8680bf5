/** Which conversation is shown: `#/scheduling/<thread id>`. */
import { useSyncExternalStore } from "react";

export const AGENTS = {
  scheduling: { title: "Scheduling", tagline: "Teachers, sections, loads and conflicts", icon: "M8 2v4M16 2v4M3 10h18M5 4h14a2 2 0 0 1 2 2v13a2 2 0 0 1-2 2H5a2 2 0 0 1-2-2V6a2 2 0 0 1 2-2z" },
  approvals: { title: "Office desk", tagline: "Pays, buys and publishes once you agree", icon: "M9 12l2 2 4-5M12 22c5-2.5 8-5.500 8-11V5l-8-3-8 3v6c0 5.500 3 8.500 8 11z" },
  report: { title: "Reports", tagline: "Reads eight sources and writes them up", icon: "M14 2H6a2 2 0 0 0-2 2v16a2 2 0 0 0 2 2h12a2 2 0 0 0 2-2V8zM14 2v6h6M8 13h8M8 17h5" },
} as const;

export type Agent = keyof typeof AGENTS;

export interface Conversation {
  agent: Agent;
  /** Null until something is sent. */
  threadId: string | null;
}

export function useConversation(): Conversation {
  return parse(useSyncExternalStore(subscribe, () => location.hash));
}

function subscribe(listener: () => void): () => void {
  addEventListener("hashchange", listener);
  return () => removeEventListener("hashchange", listener);
}

export const format = ({ agent, threadId }: Conversation): string =>
  threadId === null ? `#/${agent}` : `#/${agent}/${encodeURIComponent(threadId)}`;

export function parse(hash: string): Conversation {
  const [, agent = "", threadId] = hash.split("/");
  const known = Object.hasOwn(AGENTS, agent) ? (agent as Agent) : "scheduling";
  return { agent: known, threadId: threadId ? decodeURIComponent(threadId) : null };
}
