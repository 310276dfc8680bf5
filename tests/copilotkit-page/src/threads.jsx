/** A list of the threads of an agent, and the selected one in a chat. */
import { useThreads } from "@copilotkit/react-core/v2";
import { useState } from "react";

import { Chat } from "./chat.jsx";

export function Threads({ agentId }) {
  const [selected, select] = useState();
  const { threads, isLoading, error, ...actions } = useThreads({ agentId, limit: 2 });
  return (
    <>
      <nav aria-busy={isLoading}>
        {threads.map(({ id, name }) => (
          <p key={id} data-thread={id}>
            <button type="button" onClick={() => select(id)}>
              {name ?? "Untitled"}
            </button>
            <button type="button" onClick={() => actions.renameThread(id, "Renamed")}>
              rename
            </button>
            <button type="button" onClick={() => actions.archiveThread(id)}>
              archive
            </button>
            <button type="button" onClick={() => actions.deleteThread(id).catch(() => {})}>
              delete
            </button>
          </p>
        ))}
        {actions.hasMoreThreads && (
          <button type="button" onClick={actions.fetchMoreThreads}>
            more
          </button>
        )}
        <button type="button" onClick={actions.refetchThreads}>
          reload
        </button>
        {error && <p role="alert">{error.message}</p>}
      </nav>
      {selected && <Chat agentId={agentId} threadId={selected} />}
    </>
  );
}
