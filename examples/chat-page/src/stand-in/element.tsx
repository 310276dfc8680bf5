/** `<openai-chatkit>`: an open stand-in for ChatKit's own element, with the same options, events and methods.
 *
 * It draws what a thread on a Threadwire server contains. It does not translate, search entities, run commands or
 * record speech.
 */
import type { ChatKitOptions, CustomApiConfig, OpenAIChatKit, UserMessageContent } from "@openai/chatkit";
import { createRoot, type Root } from "react-dom/client";

import { Api } from "./api";
import { Chat } from "./chat";
import { Draft } from "./draft";
import { History } from "./history";
import { type Emit, Session } from "./session";
import style from "./style.shadow.css";
import { applyTheme } from "./theme";

export class ChatKitElement extends HTMLElement implements OpenAIChatKit {
  #root: Root | null = null;
  #session: Session | null = null;
  #draft: Draft | null = null;
  #history: History | null = null;

  setOptions(options: ChatKitOptions): void {
    const api = new Api(customApi(options));
    if (this.#session) this.#session.configure(options, api);
    else this.#start(options, api);
    applyTheme(this, options.theme);
    this.#draw();
  }

  #start(options: ChatKitOptions, api: Api): void {
    const session = (this.#session = new Session(api, options, this.#emit));
    this.#draft = new Draft(
      () => session.api,
      () => session.options,
    );
    this.#history = new History(() => session.api);
    const shadow = this.attachShadow({ mode: "open" });
    const sheet = document.createElement("style");
    sheet.textContent = style;
    const container = document.createElement("div");
    container.className = "chat";
    shadow.append(sheet, container);
    this.#root = createRoot(container);
    void session.open(options.initialThread ?? null).then(() => this.#emit("chatkit.ready"));
  }

  #draw(): void {
    const [session, draft, history] = this.#parts;
    this.#root?.render(
      <Chat
        key="chat"
        options={session.options}
        session={session}
        draft={draft}
        history={history}
        onHistory={(isOpen) => (isOpen ? this.showHistory() : this.hideHistory())}
        onTool={(toolId) => this.#chooseTool(toolId)}
      />,
    );
  }

  get #parts(): [Session, Draft, History] {
    if (!this.#session || !this.#draft || !this.#history) throw new Error("Call setOptions first.");
    return [this.#session, this.#draft, this.#history];
  }

  #emit: Emit = (name, ...[detail]) => void this.dispatchEvent(new CustomEvent(name, { detail }));

  #chooseTool(toolId: string | null): void {
    this.#parts[1].set({ toolId });
    this.#emit("chatkit.tool.change", { toolId });
  }

  async focusComposer(): Promise<void> {
    this.shadowRoot?.querySelector("textarea")?.focus();
  }

  async setThreadId(threadId: string | null): Promise<void> {
    await this.#parts[0].open(threadId);
  }

  async sendCustomAction(action: Parameters<OpenAIChatKit["sendCustomAction"]>[0], itemId?: string): Promise<void> {
    await this.#parts[0].sendAction(action, itemId);
  }

  async sendUserMessage(message: Parameters<OpenAIChatKit["sendUserMessage"]>[0]): Promise<void> {
    const [session] = this.#parts;
    if (message.newThread) await session.open(null);
    const isAccepted = await session.send({
      content: contentOf(message),
      attachments: (message.attachments ?? []).map(({ id }) => id),
      ...(message.reply && { quoted_text: message.reply }),
      inference_options: {
        ...(message.model && { model: message.model }),
        ...(message.toolChoice && { tool_choice: message.toolChoice }),
      },
    });
    if (!isAccepted) throw new Error("The message was not sent.");
  }

  async setComposerValue(value: Parameters<OpenAIChatKit["setComposerValue"]>[0]): Promise<void> {
    const draft = this.#parts[1];
    const changes = {
      ...((value.text !== undefined || value.content) && { content: contentOf(value) }),
      ...(value.reply !== undefined && { quote: value.reply }),
      ...(value.selectedModelId !== undefined && { modelId: value.selectedModelId }),
    };
    draft.set(changes, value.attachments);
    if (value.selectedToolId !== undefined) this.#chooseTool(value.selectedToolId);
    if (value.files) draft.addFiles(value.files);
  }

  async showHistory(): Promise<void> {
    this.#emit("chatkit.history.open");
    await this.#parts[2].show();
  }

  async hideHistory(): Promise<void> {
    this.#parts[2].hide();
    this.#emit("chatkit.history.close");
  }

  async fetchUpdates(): Promise<void> {
    await this.#parts[0].refresh();
  }
}

function customApi({ api }: ChatKitOptions): CustomApiConfig {
  if ("url" in api) return api;
  throw new Error("The stand-in element only talks to a custom server: set api.url.");
}

const contentOf = ({ text, content }: { text?: string; content?: UserMessageContent[] }): UserMessageContent[] =>
  content ?? (text ? [{ type: "input_text", text }] : []);

export const define = (): void => customElements.define("openai-chatkit", ChatKitElement);
