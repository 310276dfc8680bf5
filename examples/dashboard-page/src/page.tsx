import { CopilotChat, CopilotKitProvider } from "@copilotkit/react-core/v2";
import type { ConnectionStatus } from "@threadwire/ag-ui";
import { useEffect } from "react";

import { useFollowedThread } from "./followed-thread";
import { Metrics } from "./metrics";
import { Notices, useNotices } from "./notices";
import { Status } from "./status";
import { refresh, server, type Thread } from "./thread";

const CONNECTION_ERRORS = ["agent_run_failed", "agent_connect_failed"];
/** In seconds. */
const REFRESH_DELAY = 5;

export function Page({ thread }: { thread: Thread }) {
  const notices = useNotices();
  return (
    <CopilotKitProvider
      runtimeUrl={`${server}/copilotkit`}
      enableInspector={false}
      onError={({ code, error }) => notices.notify(error.message, CONNECTION_ERRORS.includes(code))}
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

/** The message for the user about the connection. It does not change from one attempt to the next. */
function connectionProblem(status: ConnectionStatus): string | undefined {
  if (status.state === "error") return status.reason;
  return status.state === "reconnecting" ? "The server cannot be reached. Reconnecting …" : undefined;
}

type DashboardProps = { thread: Thread } & ReturnType<typeof useNotices>;

function Dashboard({ thread, notices, notify, dismiss, dismissTransient }: DashboardProps) {
  const { board, running, status, error, retry } = useFollowedThread(thread);
  const problem = connectionProblem(status);
  useEffect(() => {
    dismissTransient();
    if (problem !== undefined) notify(problem, true);
  }, [problem, notify, dismissTransient]);
  useEffect(() => {
    if (error) notify(error.message);
  }, [error, notify]);
  useEffect(() => {
    if (thread.replacesDeleted) notify("The thread that this page showed was deleted. This is a new one.");
  }, [thread, notify]);
  const requestRefresh = (delay?: number) =>
    void refresh(thread.id, delay).catch((error: Error) => notify(error.message));

  return (
    <main>
      <header>
        <h1>Fund dashboard</h1>
        <Status status={status} retry={retry} />
      </header>
      <Notices notices={notices} dismiss={dismiss} />
      <Metrics board={board} />
      <footer>
        <p className="updated">{board.updated_at ? `Updated ${new Date(board.updated_at).toLocaleString()}` : "No figures yet"}</p>
        <button type="button" onClick={() => requestRefresh()} disabled={running}>
          Refresh
        </button>
        <button type="button" onClick={() => requestRefresh(REFRESH_DELAY)}>
          Refresh in {REFRESH_DELAY} seconds
        </button>
      </footer>
    </main>
  );
}
