/** One agent in ChatKit. */
import type { ChatKitOptions, ColorScheme } from "@openai/chatkit";
import { ChatKit, useChatKit } from "@openai/chatkit-react";
import { useEffect, useState } from "react";

import { type Agent, format, parse } from "./address";
import { useFollowedThread } from "./follow";
import { themeWith } from "./scheme";

/** OpenAI's element runs in a frame of another origin. With this, the page sends its requests. */
const fetchHere: typeof fetch = (...request) => fetch(...request);

interface Props {
  agent: Agent;
  /** The thread in the address. */
  threadId: string | null;
  options: ChatKitOptions;
  scheme: ColorScheme;
  onToggleScheme: () => void;
}

export function Assistant({ agent, threadId, options, scheme, onToggleScheme }: Props) {
  const [initialThread] = useState(threadId);
  const [shownId, setShownId] = useState(threadId);
  const chatkit = useChatKit({
    ...options,
    api: { ...options.api, fetch: fetchHere },
    initialThread,
    theme: themeWith(options.theme, scheme),
    header: { rightAction: { icon: scheme === "dark" ? "light-mode" : "dark-mode", onClick: onToggleScheme } },
    // While it receives a response, ChatKit ignores what other clients do on the thread.
    onResponseEnd: () => void chatkit.fetchUpdates().catch(() => {}),
    onThreadChange: ({ threadId: changed }) => {
      setShownId(changed);
      const address = format({ agent, threadId: changed });
      if (location.hash !== address && parse(location.hash).agent === agent) location.hash = address;
    },
  });
  const { control, fetchUpdates, setThreadId } = chatkit;
  useFollowedThread(shownId, fetchUpdates);
  useEffect(() => {
    if (threadId !== shownId) void setThreadId(threadId);
    // Only a change of the address, such as Back, opens another thread.
  }, [threadId]);
  return <ChatKit control={control} className="assistant" />;
}
