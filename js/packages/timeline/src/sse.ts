/** Server-sent events, read with fetch: unlike an EventSource, it can send headers and says why it failed. */
import { type Json, parsed } from "./json.js";

export interface ServerEvent {
  event: string;
  data: Json;
  id?: string;
}

/** The server has sent nothing for too long, not even a heartbeat. */
export class StreamTimeout extends Error {}

/** Three heartbeats of the server, and a margin. */
export const IDLE_TIMEOUT = 16_000;

/** Read the events of a response until it ends. Throws if it is cut off or nothing arrives for `idleTimeout` ms. */
export async function* readEvents(response: Response, idleTimeout = IDLE_TIMEOUT): AsyncGenerator<ServerEvent> {
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await withTimeout(reader.read(), idleTimeout);
      if (done) return;
      const frames = (rest + value).split(/\r?\n\r?\n/);
      rest = frames.pop()!;
      for (const frame of frames) {
        const event = parseFrame(frame);
        if (event) yield event;
      }
    }
  } finally {
    void reader.cancel().catch(() => undefined);
  }
}

/** An event; undefined for a comment, which is a heartbeat, and for anything that is not JSON. */
function parseFrame(frame: string): ServerEvent | undefined {
  const fields = new Map<string, string>();
  for (const line of frame.split(/\r?\n/)) {
    const [, name = "", value = ""] = /^([^:]*):? ?(.*)$/s.exec(line) ?? [];
    fields.set(name, name === "data" && fields.has(name) ? `${fields.get(name)}\n${value}` : value);
  }
  const data = fields.has("data") ? parsed(fields.get("data") || null) : undefined;
  const id = fields.get("id");
  const event = fields.get("event") ?? "message";
  return data === undefined ? undefined : { event, data, ...(id !== undefined && { id }) };
}

async function withTimeout<T>(work: Promise<T>, milliseconds: number): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const timeout = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new StreamTimeout("The server has sent no data")), milliseconds);
  });
  return Promise.race([work, timeout]).finally(() => clearTimeout(timer));
}
