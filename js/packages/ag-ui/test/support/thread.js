/**
 * A minimal thread of a Threadwire server: numbered entries, each with one or more events, of which the last carries
 * the number. It responds as the server does, and can drop connections at any byte.
 */
import { HttpAgent } from "@ag-ui/client";

/** @typedef {{ type: string, [field: string]: any }} Event */
/** @typedef {{ seq: number, events: Event[] }} Entry */
/** @typedef {{ method: string, path: string, cursor: string | null, body: any, headers: Headers }} Request */

const encoder = new TextEncoder();
const THREAD = "thread-1";

export const started = (runId = "server-run") => ({ type: "RUN_STARTED", threadId: THREAD, runId });
export const finished = (runId = "server-run", more = {}) => ({ type: "RUN_FINISHED", threadId: THREAD, runId, ...more });

/**
 * @param {Event} event
 * @param {number} [seq]
 */
export const frame = (event, seq) => `data: ${JSON.stringify(event)}\n${seq === undefined ? "" : `id: ${seq}\n`}\n`;

/** @param {Entry} entry */
export const entryFrames = ({ seq, events }) =>
  events.map((event, index) => frame(event, index === events.length - 1 ? seq : undefined)).join("");

/**
 * The messages and state of a client that received `events`, computed by the stock client.
 *
 * @param {Event[]} events
 */
export async function fold(events) {
  const isOpen = events.some(({ type }) => type === "RUN_STARTED") && !/RUN_(FINISHED|ERROR)/.test(events.at(-1)?.type ?? "");
  // RUN_FINISHED is invalid while a part is open, so an unfinished stream ends with an error.
  const complete = isOpen ? [...events, { type: "RUN_ERROR", message: "cut" }] : events;
  const agent = new HttpAgent({
    url: "http://fold.invalid",
    fetch: async () => new Response(complete.map((event) => frame(event)).join(""), { headers: STREAM }),
  });
  await agent.runAgent();
  return { messages: agent.messages, state: agent.state };
}

const STREAM = { "content-type": "text/event-stream; charset=utf-8" };
const CLOSES = {
  TEXT_MESSAGE_END: "TEXT_MESSAGE_START",
  TOOL_CALL_END: "TOOL_CALL_START",
  REASONING_END: "REASONING_START",
  REASONING_MESSAGE_END: "REASONING_MESSAGE_START",
  STEP_FINISHED: "STEP_STARTED",
  SUBAGENT_FINISHED: "SUBAGENT_STARTED",
};

/** @param {Event} event */
const idOf = (event) => event["toolCallId"] ?? event["messageId"] ?? event["stepName"] ?? event["subagentRunId"];

/**
 * The events that opened the parts that are still open, and whether a run is active.
 *
 * @param {Event[]} events
 */
function openAfter(events) {
  /** @type {Event[]} */
  let open = [];
  let running = false;
  for (const event of events) {
    const opener = CLOSES[/** @type {keyof typeof CLOSES} */ (event.type)];
    if (opener) open = open.filter((each) => !(each.type === opener && idOf(each) === idOf(event)));
    else if (Object.values(CLOSES).includes(event.type)) open.push(event);
    else if (event.type === "RUN_STARTED") running = true;
    else if (/RUN_(FINISHED|ERROR)/.test(event.type)) [open, running] = [[], false];
  }
  return { open, running };
}

/** A cache, because folding takes longer than everything else here. @type {WeakMap<Entry[], Map<number, any>>} */
const snapshots = new WeakMap();

export class FakeThread {
  /** @param {Entry[]} entries */
  constructor(entries) {
    this.entries = entries;
    /** After how many bytes each of the next connections drops. Later ones do not. @type {number[]} */
    this.cuts = [];
    /** The current sequence number, at which a client without a cursor joins. */
    this.now = entries.at(-1)?.seq ?? 0;
    /** Whether all old cursors are unknown. */
    this.forgetsCursors = false;
    /** Whether the server ends a stream after the last entry, or keeps it open. */
    this.closes = true;
    /** @type {Request[]} */
    this.requests = [];
    /** Responses to send instead, once each. @type {(() => Promise<Response>)[]} */
    this.overrides = [];
  }

  /** @param {string} url @param {RequestInit} init */
  fetch = async (url, init) => {
    const headers = new Headers(init.headers);
    const path = new URL(url, "http://fake.invalid").pathname;
    const request = {
      method: init.method ?? "GET",
      path,
      cursor: headers.get("last-event-id"),
      body: init.body ? JSON.parse(String(init.body)) : undefined,
      headers,
    };
    this.requests.push(request);
    init.signal?.throwIfAborted();
    const override = this.overrides.shift();
    if (override) return override();
    if (path.includes("/stop/")) return Response.json({ stopped: true });
    return this.stream(await this.respond(request), init.signal ?? undefined);
  };

  /** @param {Request} request */
  async respond({ path, cursor }) {
    const at = this.forgetsCursors || cursor === null ? undefined : Number(cursor);
    if (path.endsWith("/connect")) return this.connect(at);
    if (path.endsWith("/events")) return this.follow(at);
    return { preamble: "", entries: this.entries };
  }

  /** @param {number} seq */
  eventsUpTo = (seq) => this.entries.filter((entry) => entry.seq <= seq).flatMap((entry) => entry.events);
  /** @param {number} seq */
  entriesAfter = (seq) => this.entries.filter((entry) => entry.seq > seq);

  /** Everything sent is committed: later snapshots include it. @param {string} preamble @param {Entry[]} entries @param {number} cut */
  commit(preamble, entries, cut) {
    let at = encoder.encode(preamble).length;
    for (const entry of entries) {
      if (at < cut) this.now = Math.max(this.now, entry.seq);
      at += encoder.encode(entryFrames(entry)).length;
    }
  }

  /** @param {number | undefined} cursor */
  async connect(cursor) {
    const at = cursor ?? this.now;
    const { open, running } = openAfter(this.eventsUpTo(at));
    const snapshot = cursor === undefined ? await this.snapshot(at) : [];
    const events = [started(), ...snapshot, ...open, ...(running ? [] : [finished()])];
    return { preamble: events.map((each) => frame(each)).join(""), entries: running ? this.entriesAfter(at) : [] };
  }

  /** @param {number | undefined} cursor */
  async follow(cursor) {
    const at = cursor ?? this.now;
    const { open, running } = openAfter(this.eventsUpTo(at));
    const snapshot = cursor === undefined ? await this.snapshot(at) : [];
    const events = running ? [started(), ...snapshot, ...open] : snapshot.length ? [started(), ...snapshot, finished()] : [];
    return { preamble: events.map((each) => frame(each)).join(""), entries: this.entriesAfter(at) };
  }

  /** @param {number} seq */
  async snapshot(seq) {
    const cached = snapshots.get(this.entries) ?? new Map();
    snapshots.set(this.entries, cached);
    const { messages, state } = cached.get(seq) ?? (await fold(this.eventsUpTo(seq)));
    cached.set(seq, { messages, state });
    return [
      { type: "STATE_SNAPSHOT", snapshot: state },
      { type: "MESSAGES_SNAPSHOT", messages },
    ];
  }

  /** @param {{ preamble: string, entries: Entry[] }} content @param {AbortSignal} [signal] */
  stream({ preamble, entries }, signal) {
    const bytes = encoder.encode(preamble + entries.map(entryFrames).join(""));
    const cut = this.cuts.shift() ?? Infinity;
    this.commit(preamble, entries, cut);
    const { closes } = this;
    const body = new ReadableStream({
      start(controller) {
        signal?.addEventListener("abort", () => controller.error(signal.reason));
        if (cut > 0) controller.enqueue(bytes.subarray(0, cut));
      },
      // An error discards the queue, so raise it only after the queue has been read.
      pull(controller) {
        if (cut < bytes.length) controller.error(new TypeError("terminated"));
        else if (closes) controller.close();
      },
    });
    return new Response(body, { headers: STREAM });
  }
}
