import type { AbstractAgent, Message } from "@ag-ui/client";

type MirroredAgent = Pick<
  AbstractAgent,
  "threadId" | "messages" | "state" | "isRunning" | "setMessages" | "setState" | "subscribe"
>;

/** The client writes these messages, so the server may not have them yet. Any other message that the server does not
 * have was rolled back. */
const isClientMessage = ({ role }: Message): boolean => role === "user" || role === "tool";

/**
 * Copy the messages and the state of `source` to `target`, an agent of the same thread that only sees its own runs,
 * such as CopilotKit's. `target` then also shows runs started elsewhere, and the rest of a run whose connection it
 * lost. Returns a function that stops mirroring.
 *
 * `target` is not changed while it is running, nor while it has a message that has not reached the server yet.
 */
export function mirror(source: MirroredAgent, target: MirroredAgent): () => void {
  // After a run of `target`, `source` may not have received all of it yet. Copying would then remove messages.
  let sourceIsBehind = false;

  const missingFromSource = (): Message[] => {
    const known = new Set(source.messages.map(({ id }) => id));
    return target.messages.filter(({ id }) => !known.has(id));
  };
  const copy = (): void => {
    if (target.isRunning || sourceIsBehind || target.threadId !== source.threadId) return;
    if (missingFromSource().some(isClientMessage)) return;
    target.setMessages(source.messages);
    target.setState(source.state);
  };
  const onSourceFinalized = (): void => {
    sourceIsBehind &&= missingFromSource().length > 0;
    copy();
  };
  const onTargetFailed = (): void => {
    sourceIsBehind = false;
    copy();
  };

  const subscriptions = [
    source.subscribe({ onMessagesChanged: copy, onStateChanged: copy, onRunFinalized: onSourceFinalized }),
    target.subscribe({
      onRunFinishedEvent: () => void (sourceIsBehind = source.isRunning || missingFromSource().length > 0),
      onRunFailed: onTargetFailed,
    }),
  ];
  copy();
  return () => subscriptions.forEach((each) => each.unsubscribe());
}
