/**
 * A thread as a Threadwire server has it, in a few lines: entries with numbers, each told in one or several events of
 * which the last carries the number. It answers as the server does, and hangs up in mid-sentence when told to.
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
 * What a client that has seen `events` has. The oracle is the stock client.
 *
 * @param {Event[]} events
 */
export async function fold(events) {
  const isOpen = events.some(({ type }) => type === "RUN_STARTED") && !/RUN_(FINISHED|ERROR)/.test(events.at(-1)?.type ?? "");
  // A stream may end anywhere but with a RUN_FINISHED while something is open, so this one ends in an error.
  const whole = isOpen ? [...events, { type: "RUN_ERROR", message: "cut" }] : events;
  const agent = new HttpAgent({
    url: "http://fold.invalid",
    fetch: async () => new Response(whole.map((event) => frame(event)).join(""), { headers: STREAM }),
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
 * The events that opened what is still open, and the run they are in.
 *
 * @param {Event[]} events
 */
function openIn(events) {
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

/** Folding takes longer than everything else here. @type {WeakMap<Entry[], Map<number, any>>} */
const snapshots = new WeakMap();

export class FakeThread {
  /** @param {Entry[]} entries */
  constructor(entries) {
    this.entries = entries;
    /** How many bytes each coming connection carries before it breaks; the ones after are whole. @type {number[]} */
    this.cuts = [];
    /** The number up to which the run has come when somebody joins it without a cursor. */
    this.now = entries.at(-1)?.seq ?? 0;
    /** Whether it has lost all old cursors. */
    this.forgetful = false;
    /** Whether a followed stream is ended by the server once it has said everything, or stays open. */
    this.closes = true;
    /** @type {Request[]} */
    this.requests = [];
    /** What to answer instead, once each. @type {(() => Promise<Response>)[]} */
    this.instead = [];
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
    const answer = this.instead.shift();
    if (answer) return answer();
    if (path.includes("/stop/")) return Response.json({ stopped: true });
    return this.stream(await this.answer(request), init.signal ?? undefined);
  };

  /** @param {Request} request */
  async answer({ path, cursor }) {
    const at = this.forgetful || cursor === null ? undefined : Number(cursor);
    if (path.endsWith("/connect")) return this.connect(at);
    if (path.endsWith("/events")) return this.follow(at);
    return { begin: "", entries: this.entries };
  }

  /** @param {number} seq */
  upTo = (seq) => this.entries.filter((entry) => entry.seq <= seq).flatMap((entry) => entry.events);
  /** @param {number} seq */
  after = (seq) => this.entries.filter((entry) => entry.seq > seq);

  /** What has been sent is written: no later snapshot is older. @param {string} begin @param {Entry[]} entries @param {number} cut */
  commit(begin, entries, cut) {
    let at = encoder.encode(begin).length;
    for (const entry of entries) {
      if (at < cut) this.now = Math.max(this.now, entry.seq);
      at += encoder.encode(entryFrames(entry)).length;
    }
  }

  /** @param {number | undefined} cursor */
  async connect(cursor) {
    const at = cursor ?? this.now;
    const { open, running } = openIn(this.upTo(at));
    const snapshot = cursor === undefined ? await this.snapshot(at) : [];
    const begin = [started(), ...snapshot, ...open, ...(running ? [] : [finished()])];
    return { begin: begin.map((each) => frame(each)).join(""), entries: running ? this.after(at) : [] };
  }

  /** @param {number | undefined} cursor */
  async follow(cursor) {
    const at = cursor ?? this.now;
    const { open, running } = openIn(this.upTo(at));
    const snapshot = cursor === undefined ? await this.snapshot(at) : [];
    const begin = running ? [started(), ...snapshot, ...open] : snapshot.length ? [started(), ...snapshot, finished()] : [];
    return { begin: begin.map((each) => frame(each)).join(""), entries: this.after(at) };
  }

  /** @param {number} seq */
  async snapshot(seq) {
    const known = snapshots.get(this.entries) ?? new Map();
    snapshots.set(this.entries, known);
    const { messages, state } = known.get(seq) ?? (await fold(this.upTo(seq)));
    known.set(seq, { messages, state });
    return [
      { type: "STATE_SNAPSHOT", snapshot: state },
      { type: "MESSAGES_SNAPSHOT", messages },
    ];
  }

  /** @param {{ begin: string, entries: Entry[] }} answer @param {AbortSignal} [signal] */
  stream({ begin, entries }, signal) {
    const bytes = encoder.encode(begin + entries.map(entryFrames).join(""));
    const cut = this.cuts.shift() ?? Infinity;
    this.commit(begin, entries, cut);
    const { closes } = this;
    const body = new ReadableStream({
      start(controller) {
        signal?.addEventListener("abort", () => controller.error(signal.reason));
        if (cut > 0) controller.enqueue(bytes.subarray(0, cut));
      },
      // An error takes what is still queued with it, so it comes when that has been read.
      pull(controller) {
        if (cut < bytes.length) controller.error(new TypeError("terminated"));
        else if (closes) controller.close();
      },
    });
    return new Response(body, { headers: STREAM });
  }
}
