import type { Connection } from "@threadwire/timeline/live";
import { useEffect, useState } from "react";

const TEXTS: Record<Connection["state"], string> = {
  idle: "New",
  connecting: "Connecting…",
  cached: "Saved copy, syncing…",
  syncing: "Saved copy, syncing…",
  live: "Live",
  reconnecting: "Reconnecting…",
  offline: "Offline: saved copy",
  error: "Not connected",
};
const REPAIRS = { resumed: "Resumed, nothing was missed", reloaded: "The server was reset: reloaded" };
const NOTICE_TIME = 6_000;

/** The state of the connection, as text and not by colour only. */
export function ConnectionStatus({ connection }: { connection: Connection }) {
  const { state, attempt, repair, role, storageProblem } = connection;
  const notice = useNotice(state === "live" ? repair : undefined, connection.since);
  const attempts = state === "reconnecting" && attempt > 1 ? ` (attempt ${attempt})` : "";
  const details = [role === "follower" ? "through another tab" : "", storageProblem ? "nothing is saved in this browser" : ""];
  const detail = details.filter(Boolean).join(", ");
  return (
    <p className="connection" data-state={state} role="status" aria-label="Connection">
      <span className="dot" aria-hidden="true" />
      {notice ?? `${TEXTS[state]}${attempts}`}
      {detail && <span className="detail"> · {detail}</span>}
    </p>
  );
}

/** What was repaired, for a few seconds. */
function useNotice(repair: Connection["repair"], since: number): string | undefined {
  const [until, setUntil] = useState(0);
  useEffect(() => {
    if (!repair) return;
    setUntil(since + NOTICE_TIME);
    const timer = setTimeout(() => setUntil(0), since + NOTICE_TIME - Date.now());
    return () => clearTimeout(timer);
  }, [repair, since]);
  return repair && until > 0 ? REPAIRS[repair] : undefined;
}
