/** The threads of an agent in a list, and the chosen one in a chat. */
import { useThreads } from "@copilotkit/react-core/v2";
import { useState } from "react";

import { Chat } from "./chat.jsx";

export function Threads({ agentId }) {
  const [chosen, choose] = useState();
  const { threads, isLoading, error, ...change } = useThreads({ agentId, limit: 2 });
  return (
    <>
      <nav aria-busy={isLoading}>
        {threads.map(({ id, name }) => (
          <p key={id} data-thread={id}>
            <button type="button" onClick={() => choose(id)}>
              {name ?? "Untitled"}
            </button>
            <button type="button" onClick={() => change.renameThread(id, "Renamed")}>
              rename
            </button>
            <button type="button" onClick={() => change.archiveThread(id)}>
              archive
            </button>
            <button type="button" onClick={() => change.deleteThread(id).catch(() => {})}>
              delete
            </button>
          </p>
        ))}
        {change.hasMoreThreads && (
          <button type="button" onClick={change.fetchMoreThreads}>
            more
          </button>
        )}
        <button type="button" onClick={change.refetchThreads}>
          again
        </button>
        {error && <p role="alert">{error.message}</p>}
      </nav>
      {chosen && <Chat agentId={agentId} threadId={chosen} />}
    </>
  );
}
