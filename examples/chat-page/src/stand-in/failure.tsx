/** The error message, with a retry button where a retry makes sense. */
import { Icon } from "./icons";
import type { Session } from "./session";
import { useStore } from "./store";

export function Failure({ session }: { session: Session }) {
  const { error, items } = useStore(session.shown);
  if (!error) return null;
  const question = items.findLast((item) => item.type === "user_message");
  return (
    <div className="failure" role="alert">
      <Icon name="alert" />
      <span>{error.message}</span>
      {error.allowRetry && question && (
        <button type="button" onClick={() => void session.retry(question.id)}>
          Retry
        </button>
      )}
    </div>
  );
}
