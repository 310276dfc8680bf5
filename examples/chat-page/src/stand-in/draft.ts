/** What is in the composer and not sent yet: the text, files, and the chosen tool and model. */
import type { Attachment, ChatKitOptions, UserMessageContent } from "@openai/chatkit";

import type { Api } from "./api";
import { Store } from "./store";
import { upload } from "./uploads";
import type { UserMessageInput } from "./wire";

export interface DraftFile {
  key: number;
  name: string;
  /** Null while it is uploaded. */
  attachment: Attachment | null;
  error: string | null;
}

interface Values {
  content: UserMessageContent[];
  quote: string | null;
  files: DraftFile[];
  toolId: string | null;
  modelId: string | null;
}

const EMPTY: Values = { content: [], quote: null, files: [], toolId: null, modelId: null };

export class Draft {
  readonly values = new Store<Values>(EMPTY);
  #nextKey = 0;

  constructor(
    private readonly api: () => Api,
    private readonly options: () => ChatKitOptions,
  ) {}

  setText(text: string): void {
    this.values.set({ content: text ? [{ type: "input_text", text }] : [] });
  }

  set(changes: Partial<Omit<Values, "files">>, attachments?: Attachment[]): void {
    this.values.set(changes);
    if (attachments) this.values.set({ files: attachments.map((each) => this.#uploaded(each)) });
  }

  #uploaded(attachment: Attachment): DraftFile {
    return { key: this.#nextKey++, name: attachment.name, attachment, error: null };
  }

  addFiles(files: Iterable<File>): void {
    const limit = this.options().composer?.attachments?.maxCount ?? Infinity;
    for (const file of files) {
      if (this.values.get().files.length >= limit) return;
      void this.#addFile(file);
    }
  }

  async #addFile(file: File): Promise<void> {
    const key = this.#nextKey++;
    this.values.set({ files: [...this.values.get().files, { key, name: file.name, attachment: null, error: null }] });
    try {
      this.#changeFile(key, { attachment: await upload(this.api(), this.options(), file) });
    } catch (error) {
      this.#changeFile(key, { error: error instanceof Error ? error.message : "The upload failed." });
    }
  }

  #changeFile(key: number, changes: Partial<DraftFile>): void {
    this.values.set({ files: this.values.get().files.map((each) => (each.key === key ? { ...each, ...changes } : each)) });
  }

  async removeFile(file: DraftFile): Promise<void> {
    this.values.set({ files: this.values.get().files.filter(({ key }) => key !== file.key) });
    if (!file.attachment) return;
    await this.api()
      .call("attachments.delete", { attachment_id: file.attachment.id })
      .catch(() => {}); // it is not sent in any case
  }

  get canSend(): boolean {
    const { content, files } = this.values.get();
    const hasText = content.some((part) => part.text.trim());
    return (hasText || files.length > 0) && files.every(({ attachment }) => attachment !== null);
  }

  /** Send what is in the composer, and empty it. The model stays chosen. A rejected message is put back. */
  async sendTo(send: (message: UserMessageInput) => Promise<boolean>): Promise<void> {
    const taken = this.values.get();
    this.values.set({ ...EMPTY, modelId: taken.modelId });
    if (await send(messageOf(taken))) return;
    const { content, files } = this.values.get();
    this.values.set({ ...taken, content: [...taken.content, ...content], files: [...taken.files, ...files] });
  }
}

function messageOf({ content, quote, files, toolId, modelId }: Values): UserMessageInput {
  return {
    content,
    attachments: files.flatMap(({ attachment }) => (attachment ? [attachment.id] : [])),
    ...(quote && { quoted_text: quote }),
    inference_options: { ...(modelId && { model: modelId }), ...(toolId && { tool_choice: { id: toolId } }) },
  };
}

export const textOf = (content: UserMessageContent[]): string =>
  content.map((part) => (part.type === "input_tag" ? `@${part.text}` : part.text)).join("");
