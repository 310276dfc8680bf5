/** Requests to a ChatKit server. */
import type { CustomApiConfig } from "@openai/chatkit";

import type { StreamEvent } from "./wire";

/** A request that the server has rejected. Repeating it would not help. */
export class Rejected extends Error {}

export class Api {
  constructor(readonly config: CustomApiConfig) {}

  async call<T>(type: string, params: object): Promise<T> {
    const response = await this.#post(type, params);
    return (await response.json()) as T;
  }

  /** The events of one response. Throws if the connection breaks before its end. */
  async *stream(type: string, params: object, key: string, signal: AbortSignal): AsyncGenerator<StreamEvent> {
    const response = await this.#post(type, params, { "idempotency-key": key }, signal);
    if (!response.body) return;
    let rest = "";
    for await (const text of chunksOf(response.body.pipeThrough(new TextDecoderStream()))) {
      const frames = (rest + text).split("\n\n");
      rest = frames.pop() ?? "";
      for (const frame of frames) {
        if (frame.startsWith("data: ")) yield JSON.parse(frame.slice("data: ".length)) as StreamEvent;
      }
    }
  }

  /** Send a request that is not an operation, such as an upload. */
  async send(url: string, init: RequestInit): Promise<Response> {
    const response = await (this.config.fetch ?? fetch)(url, init);
    if (response.ok) return response;
    const message = await messageOf(response);
    throw response.status < 500 ? new Rejected(message) : new Error(message);
  }

  #post(type: string, params: object, headers: Record<string, string> = {}, signal?: AbortSignal): Promise<Response> {
    return this.send(this.config.url, {
      method: "POST",
      headers: { "content-type": "application/json", ...headers },
      body: JSON.stringify({ type, params }),
      ...(signal && { signal }),
    });
  }
}

// Not every browser can iterate over a stream.
async function* chunksOf<T>(stream: ReadableStream<T>): AsyncGenerator<T> {
  const reader = stream.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    void reader.cancel().catch(() => {});
  }
}

async function messageOf(response: Response): Promise<string> {
  try {
    const body = (await response.json()) as { detail?: unknown; error?: unknown; message?: unknown };
    const found = body.detail ?? body.message ?? body.error;
    return typeof found === "string" ? found : JSON.stringify(found);
  } catch {
    return `The server responded with ${response.status}.`;
  }
}
