/** Requests to a LangGraph server. */
import { isObject, type Json, parsed } from "./json.js";

export interface ApiOptions {
  /** The URL of the server, such as `https://example.com/api`; by default the origin of the page. */
  apiUrl?: string;
  /** Headers of every request, such as `authorization`. */
  headers?: Record<string, string>;
  fetch?: typeof fetch;
}

export interface RequestOptions {
  /** Sent as JSON. */
  body?: unknown;
  lastEventId?: string;
  signal?: AbortSignal;
}

/** The server rejected a request. */
export class ApiError extends Error {
  readonly status: number;
  readonly body: Json;

  constructor(status: number, body: Json) {
    const detail = isObject(body) ? (body.detail ?? body.message) : body;
    super(typeof detail === "string" && detail ? detail : `The server returned ${status}`);
    this.name = "ApiError";
    this.status = status;
    this.body = body;
  }
}

export class Api {
  readonly url: string;
  readonly #options: ApiOptions;

  constructor(options: ApiOptions) {
    this.#options = options;
    this.url = (options.apiUrl ?? "").replace(/\/$/, "");
  }

  /** Send a request. Throws an `ApiError` unless the server accepts it. */
  async request(method: string, path: string, { body, lastEventId, signal }: RequestOptions = {}): Promise<Response> {
    const send = this.#options.fetch ?? fetch;
    const response = await send(this.url + path, {
      method,
      headers: {
        ...this.#options.headers,
        ...(body !== undefined && { "content-type": "application/json" }),
        ...(lastEventId !== undefined && { "last-event-id": lastEventId }),
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      ...(signal && { signal }),
    });
    if (response.ok) return response;
    const text = await response.text().catch(() => "");
    throw new ApiError(response.status, parsed(text) ?? text);
  }
}
