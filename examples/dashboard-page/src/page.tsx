import { CopilotChat, CopilotKitProvider } from "@copilotkit/react-core/v2";
import { useEffect } from "react";

import { useFollowed } from "./following";
import { Metrics } from "./metrics";
import { Notices, useNotices } from "./notices";
import { Status } from "./status";
import { refresh, server, type Thread } from "./thread";

const OF_THE_CONNECTION = ["agent_run_failed", "agent_connect_failed"];
const LATER = 5;

export function Page({ thread }: { thread: Thread }) {
  const notices = useNotices();
  return (
    <CopilotKitProvider
      runtimeUrl={`${server}/copilotkit`}
      enableInspector={false}
      onError={({ code, error }) => notices.tell(error.message, OF_THE_CONNECTION.includes(code))}
    >
      <Dashboard thread={thread} {...notices} />
      <aside className="chat">
        <CopilotChat
          agentId="dashboard"
          threadId={thread.id}
          labels={{ welcomeMessageText: "Ask about the figures", chatInputPlaceholder: "How is the income?" }}
        />
      </aside>
    </CopilotKitProvider>
  );
}

type DashboardProps = { thread: Thread } & ReturnType<typeof useNotices>;

function Dashboard({ thread, notices, tell, dismiss, forgetPassing }: DashboardProps) {
  const { board, running, status, again } = useFollowed(thread, tell);
  useEffect(() => {
    if (status.state === "connected") forgetPassing();
  }, [status, forgetPassing]);
  const ask = (inSeconds?: number) => void refresh(thread.id, inSeconds).catch((error: Error) => tell(error.message));

  return (
    <main>
      <header>
        <h1>Fund dashboard</h1>
        <Status status={status} again={again} />
      </header>
      <Notices notices={status.state === "error" ? [{ text: status.reason, passing: true }, ...notices] : notices} dismiss={dismiss} />
      <Metrics board={board} />
      <footer>
        <p className="updated">{board.updated_at ? `Updated ${new Date(board.updated_at).toLocaleString()}` : "No figures yet"}</p>
        <button type="button" onClick={() => ask()} disabled={running}>
          Refresh
        </button>
        <button type="button" onClick={() => ask(LATER)}>
          Refresh in {LATER} seconds
        </button>
      </footer>
    </main>
  );
}
