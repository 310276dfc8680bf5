import type { Stream } from "@threadwire/react";
import type { FormEvent, KeyboardEvent } from "react";

import { useDraft } from "./draft";

interface Props {
  stream: Stream;
  draftKey: string;
  send: (text: string) => Promise<void>;
}

export function Composer({ stream, draftKey, send }: Props) {
  const [text, setText, discard] = useDraft(`message:${draftKey}`, "");
  const open = stream.interrupts.filter((block) => block.phase === "open").length;
  const submit = (event?: FormEvent) => {
    event?.preventDefault();
    if (!text.trim()) return;
    discard();
    void send(text.trim());
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "Enter" && !event.shiftKey && !event.nativeEvent.isComposing) {
      event.preventDefault();
      submit();
    }
  };
  return (
    <form className="composer" onSubmit={submit}>
      {open > 0 && (
        <p className="hint">
          {open === 1 ? "One answer is needed above." : `${open} answers are needed above.`} A new message drops{" "}
          {open === 1 ? "the question" : "the questions"}.
        </p>
      )}
      <div>
        <textarea
          aria-label="Message"
          placeholder="Write a message…"
          rows={1}
          value={text}
          onChange={(event) => setText(event.target.value)}
          onKeyDown={onKeyDown}
        />
        {stream.run ? (
          <button type="button" className="button" onClick={() => void stream.stop()}>
            Stop
          </button>
        ) : (
          <button type="submit" className="button primary" disabled={!text.trim()}>
            Send
          </button>
        )}
      </div>
    </form>
  );
}
