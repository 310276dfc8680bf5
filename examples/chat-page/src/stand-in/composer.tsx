/** Where people write: text, files, and the choice of a tool and a model. */
import type { ChatKitOptions } from "@openai/chatkit";
import { type ChangeEvent, type ClipboardEvent, type DragEvent, type KeyboardEvent, useEffect, useRef } from "react";

import { type Draft, type DraftFile, textOf } from "./draft";
import { IconButton } from "./icon-button";
import { Icon } from "./icons";
import type { Session } from "./session";
import { useStore } from "./store";

interface Props {
  options: ChatKitOptions;
  session: Session;
  draft: Draft;
  onTool: (toolId: string | null) => void;
}

export function Composer({ options: { composer = {} }, session, draft, onTool }: Props) {
  const { content, files, quote, toolId } = useStore(draft.values);
  const { thread, isResponding, allowCancel, isLoading } = useStore(session.shown);
  const isLocked = thread !== null && thread.status.type !== "active";
  const tool = composer.tools?.find(({ id }) => id === toolId);
  const canAttach = composer.attachments?.enabled === true && !isLocked;
  const text = textOf(content);
  const send = () => {
    if (draft.canSend && !isResponding && !isLocked && !isLoading) void draft.sendTo((message) => session.send(message));
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== "Enter" || event.shiftKey || event.nativeEvent.isComposing) return;
    event.preventDefault();
    send();
  };
  const dropped = (event: ClipboardEvent | DragEvent, transferred: FileList) => {
    if (!canAttach || transferred.length === 0) return;
    event.preventDefault();
    draft.addFiles(transferred);
  };
  return (
    <form
      className="composer"
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
      onDragOver={(event) => event.preventDefault()}
      onDrop={(event) => dropped(event, event.dataTransfer.files)}
    >
      {files.length > 0 && (
        <ul className="files" aria-label="Files">
          {files.map((file) => (
            <DraftFileView key={file.key} file={file} onRemove={() => void draft.removeFile(file)} />
          ))}
        </ul>
      )}
      {quote && <blockquote>{quote}</blockquote>}
      <GrowingTextarea
        text={text}
        placeholder={isLocked ? lockedText(thread.status.reason) : (tool?.placeholderOverride ?? composer.placeholder ?? "Message")}
        isDisabled={isLocked}
        onChange={(changed) => draft.setText(changed)}
        onKeyDown={onKeyDown}
        onPaste={(event) => dropped(event, event.clipboardData.files)}
      />
      <div className="tools">
        {canAttach && <AttachButton accept={composer.attachments?.accept ?? {}} onFiles={(added) => draft.addFiles(added)} />}
        {composer.tools?.map(({ id, label, shortLabel, icon }) => (
          <button
            key={id}
            type="button"
            className="tool"
            aria-pressed={id === toolId}
            onClick={() => onTool(id === toolId ? null : id)}
          >
            <Icon name={icon} /> {shortLabel ?? label}
          </button>
        ))}
        <span className="space" />
        {composer.models && <ModelSelect models={composer.models} draft={draft} />}
        {isResponding && allowCancel ? (
          <button type="button" className="send" aria-label="Stop" onClick={() => session.stop()}>
            <Icon name="stop" />
          </button>
        ) : (
          <button type="submit" className="send" aria-label="Send" disabled={!draft.canSend || isResponding || isLocked}>
            {isResponding ? <span className="spinner" /> : <Icon name="send" size={18} />}
          </button>
        )}
      </div>
    </form>
  );
}

const lockedText = (reason: string | undefined): string => reason ?? "This conversation is closed.";

interface TextareaProps {
  text: string;
  placeholder: string;
  isDisabled: boolean;
  onChange: (text: string) => void;
  onKeyDown: (event: KeyboardEvent) => void;
  onPaste: (event: ClipboardEvent) => void;
}

function GrowingTextarea({ text, placeholder, isDisabled, onChange, onKeyDown, onPaste }: TextareaProps) {
  const field = useRef<HTMLTextAreaElement>(null);
  useEffect(() => {
    if (!field.current) return;
    field.current.style.height = "auto";
    field.current.style.height = `${field.current.scrollHeight}px`;
  }, [text]);
  return (
    <textarea
      ref={field}
      rows={1}
      aria-label="Message"
      placeholder={placeholder}
      value={text}
      disabled={isDisabled}
      onChange={({ target }) => onChange(target.value)}
      onKeyDown={onKeyDown}
      onPaste={onPaste}
    />
  );
}

function DraftFileView({ file: { name, attachment, error }, onRemove }: { file: DraftFile; onRemove: () => void }) {
  return (
    <li className="file" data-state={error ? "failed" : attachment ? "ready" : "uploading"}>
      {attachment?.type === "image" ? (
        <img src={attachment.preview_url} alt="" />
      ) : attachment || error ? (
        <Icon name={error ? "alert" : "file"} />
      ) : (
        <span className="spinner" />
      )}
      <span>
        {name}
        {error && <small role="alert">{error}</small>}
      </span>
      <IconButton icon="close" label={`Remove ${name}`} onClick={onRemove} />
    </li>
  );
}

function AttachButton({ accept, onFiles }: { accept: Record<string, string[]>; onFiles: (files: Iterable<File>) => void }) {
  const input = useRef<HTMLInputElement>(null);
  const choose = ({ target }: ChangeEvent<HTMLInputElement>) => {
    onFiles([...(target.files ?? [])]);
    target.value = ""; // the same file can be chosen again
  };
  const types = Object.entries(accept).flatMap(([type, endings]) => [type, ...endings]);
  return (
    <>
      <input ref={input} type="file" hidden multiple accept={types.join(",")} onChange={choose} />
      <IconButton icon="attach" label="Attach files" onClick={() => input.current?.click()} />
    </>
  );
}

type Models = NonNullable<NonNullable<ChatKitOptions["composer"]>["models"]>;

function ModelSelect({ models, draft }: { models: Models; draft: Draft }) {
  const { modelId } = useStore(draft.values);
  const chosen = modelId ?? models.find((each) => each.default)?.id ?? models[0]?.id;
  return (
    <select aria-label="Model" value={chosen} onChange={({ target }) => draft.set({ modelId: target.value })}>
      {models.map(({ id, label, disabled }) => (
        <option key={id} value={id} disabled={disabled}>
          {label}
        </option>
      ))}
    </select>
  );
}
