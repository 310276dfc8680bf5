import { useCallback, useState } from "react";

/** An error message for the user. */
export interface Notice {
  readonly text: string;
  /** Whether it is about the connection, and disappears once connected again. */
  readonly transient: boolean;
}

const MAX_NOTICES = 3;

export function useNotices() {
  const [notices, setNotices] = useState<readonly Notice[]>([]);
  const notify = useCallback((text: string, transient = false) => {
    // The chat and the board may both report the same failure.
    setNotices((before) => [...before.filter((each) => each.text !== text), { text, transient }].slice(-MAX_NOTICES));
  }, []);
  const dismiss = useCallback((notice: Notice) => setNotices((before) => before.filter((each) => each !== notice)), []);
  const dismissTransient = useCallback(
    () => setNotices((before) => before.filter((each) => !each.transient)),
    [],
  );
  return { notices, notify, dismiss, dismissTransient };
}

export function Notices({ notices, dismiss }: { notices: readonly Notice[]; dismiss: (notice: Notice) => void }) {
  return (
    <div className="notices">
      {notices.map((notice) => (
        <p key={notice.text} role="alert">
          {notice.text}
          <button type="button" aria-label="Dismiss" onClick={() => dismiss(notice)}>
            ×
          </button>
        </p>
      ))}
    </div>
  );
}
