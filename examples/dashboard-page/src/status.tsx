import type { ConnectionStatus } from "@threadwire/ag-ui";

const LABELS: Record<ConnectionStatus["state"], string> = {
  connecting: "Connecting",
  connected: "Connected",
  reconnecting: "Reconnecting",
  error: "Disconnected",
  closed: "Connecting",
};

/** The connection status, with a retry button after an error. */
export function Status({ status, retry }: { status: ConnectionStatus; retry: () => void }) {
  const reason = "reason" in status ? status.reason : undefined;
  return (
    <div className="status" role="status" data-state={status.state} title={reason}>
      <span className="dot" />
      {LABELS[status.state]}
      {status.state === "error" && (
        <button type="button" onClick={retry}>
          Try again
        </button>
      )}
    </div>
  );
}
