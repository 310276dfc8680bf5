import { useCallback, useState } from "react";

/** Something that went wrong, for people to read. */
export interface Notice {
  readonly text: string;
  /** Whether it is about the connection, and over once that is back. */
  readonly passing: boolean;
}

const AT_MOST = 3;

export function useNotices() {
  const [notices, setNotices] = useState<readonly Notice[]>([]);
  const tell = useCallback((text: string, passing = false) => {
    // The chat and the board may both hear of the same failure.
    setNotices((before) => [...before.filter((each) => each.text !== text), { text, passing }].slice(-AT_MOST));
  }, []);
  const dismiss = useCallback((notice: Notice) => setNotices((before) => before.filter((each) => each !== notice)), []);
  const forgetPassing = useCallback(() => setNotices((before) => before.filter((each) => !each.passing)), []);
  return { notices, tell, dismiss, forgetPassing };
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
