import type { ConnectionStatus } from "@threadwire/ag-ui";

const WORDS: Record<ConnectionStatus["state"], string> = {
  connecting: "Connecting",
  connected: "Connected",
  reconnecting: "Reconnecting",
  error: "Disconnected",
  closed: "Connecting",
};

/** How it stands with the server, and what to do if that is badly. */
export function Status({ status, again }: { status: ConnectionStatus; again: () => void }) {
  const reason = "reason" in status ? status.reason : undefined;
  return (
    <div className="status" role="status" data-state={status.state} title={reason}>
      <span className="dot" />
      {WORDS[status.state]}
      {status.state === "error" && (
        <button type="button" onClick={again}>
          Try again
        </button>
      )}
    </div>
  );
}
