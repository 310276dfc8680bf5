/** A Threadwire server in the process: threads with a page, a stream of changes, runs and answers. */

const encoder = new TextEncoder();

export class FakeServer {
  /** Every request: method and path. */
  requests = [];
  /** What the next requests whose path ends like this return instead. */
  failures = [];
  threads = new Map();
  hasTimeline = true;
  /** Called when a run was accepted. */
  onRun;

  /** The `fetch` of this server. */
  fetch = async (url, { method = "GET", headers = {}, body, signal } = {}) => {
    const { pathname, searchParams } = new URL(url, "http://test");
    this.requests.push(`${method} ${pathname}`);
    const failure = this.failures.findIndex(({ path }) => pathname.endsWith(path));
    if (failure >= 0) {
      const [{ status, data = { detail: "No" } }] = this.failures.splice(failure, 1);
      if (status === 0) throw new TypeError("The network failed");
      return Response.json(data, { status });
    }
    return this.#answer(method, pathname, searchParams, headers, body && JSON.parse(body), signal);
  };

  thread(id) {
    if (!this.threads.has(id)) this.threads.set(id, { blocks: [], values: {}, seq: 0, run: null, log: [], streams: new Set(), posted: [] });
    return this.threads.get(id);
  }

  /** Change a thread, as a run would. */
  change(id, changes, more = {}) {
    const thread = this.thread(id);
    thread.seq++;
    for (const change of changes) {
      const at = thread.blocks.findIndex((block) => block.id === (change.id ?? change.after));
      if (change.change === "insert") thread.blocks.splice(at + 1, 0, { ...change.block, seq: thread.seq });
      if (change.change === "update") thread.blocks[at] = { ...thread.blocks[at], ...change.set };
      if (change.change === "append") {
        const { message, ...block } = thread.blocks[at];
        thread.blocks[at] = { ...block, rev: change.rev, message: { ...message, content: message.content + change.text } };
      }
    }
    if ("run" in more) thread.run = more.run;
    thread.log.push({ seq: thread.seq, data: { changes, ...more } });
    for (const send of thread.streams) sendChanges(send, thread.seq, { changes, ...more });
  }

  openStreams(id) {
    return this.thread(id).streams.size;
  }

  /** Break all streams of a thread. */
  cut(id) {
    for (const send of this.thread(id).streams) send.fail();
  }

  #answer(method, path, query, headers, body, signal) {
    const [, , id, ...rest] = path.split("/").map(decodeURIComponent);
    if (method === "POST" && path === "/threads") return Response.json(this.thread(body.thread_id) && { thread_id: body.thread_id });
    if (!this.threads.has(id)) return Response.json({ detail: "Thread not found" }, { status: 404 });
    const thread = this.threads.get(id);
    const what = rest.join("/");
    if (method === "GET" && what === "") return Response.json({ thread_id: id });
    if (!this.hasTimeline && what.startsWith("timeline")) return Response.json({ detail: "Not Found" }, { status: 404 });
    if (method === "GET" && what === "timeline") return Response.json(page(thread, query));
    if (method === "GET" && what === "timeline/stream") return this.#stream(thread, headers["last-event-id"], query, signal);
    if (method === "POST" && what === "runs") {
      thread.posted.push(body);
      this.onRun?.();
      return Response.json({ run_id: `run-${thread.posted.length}` });
    }
    if (method === "PUT") {
      thread.posted.push(body);
      const at = thread.blocks.findIndex((block) => block.interruptId === rest[2]);
      const set = { phase: "completed", completed: true, outcome: "answered", frozenValue: body.frozenValue, rev: 2 };
      this.change(id, [{ change: "update", id: thread.blocks[at].id, set }]);
      return Response.json({ interrupt: thread.blocks[at], seq: thread.seq, runId: "run-9" });
    }
    return Response.json({ detail: "Not Found" }, { status: 404 });
  }

  #stream(thread, position, query, signal) {
    if (position !== undefined && Number(position) > thread.seq) {
      return Response.json({ detail: "Unknown position" }, { status: 400 });
    }
    let send;
    const body = new ReadableStream({
      start(controller) {
        send = (event, seq, data) => controller.enqueue(encoder.encode(`event: ${event}\nid: ${seq}\ndata: ${JSON.stringify(data)}\n\n`));
        send.fail = () => {
          thread.streams.delete(send);
          controller.error(new TypeError("The connection was lost"));
        };
        if (position === undefined) send("snapshot", thread.seq, page(thread, query));
        for (const { seq, data } of thread.log) if (position !== undefined && seq > Number(position)) sendChanges(send, seq, data);
        thread.streams.add(send);
        signal?.addEventListener("abort", () => thread.streams.has(send) && send.fail());
      },
      cancel: () => void thread.streams.delete(send),
    });
    return new Response(body, { headers: { "content-type": "text/event-stream" } });
  }
}

/** A token has a short form. */
function sendChanges(send, seq, data) {
  const [{ change, id, text, rev, updatedAt } = {}, ...others] = data.changes;
  const isToken = change === "append" && others.length === 0 && Object.keys(data).length === 1;
  send(isToken ? "append" : "changes", seq, isToken ? [id, text, rev, updatedAt] : data);
}

function page(thread, query) {
  const end = query.has("before") ? thread.blocks.findIndex(({ id }) => id === query.get("before")) : thread.blocks.length;
  const start = Math.max(0, end - Number(query.get("limit") ?? 100));
  const blocks = thread.blocks.slice(start, end);
  const interrupts = thread.blocks.filter(({ kind, completed }) => kind === "interrupt" && !completed);
  return { blocks, interrupts, run: thread.run, values: thread.values, seq: thread.seq, ...(start > 0 && { before: blocks[0].id }) };
}

const stamp = { receivedAt: 1, updatedAt: 1, rev: 1, ns: [], seq: 0 };

export const text = (id, content, fields = {}) => ({ id: `m:${id}`, kind: "message", ...stamp, message: { type: "ai", id, content }, visible: true, status: "complete", ...fields });
export const asked = (id, fields = {}) => ({ id: `i:${id}`, kind: "interrupt", ...stamp, interruptId: id, value: { type: "approval", question: "ok?" }, phase: "open", completed: false, ...fields });
export const inserted = (block, after = null) => ({ change: "insert", after, block });

/** Resolves once the condition holds. */
export async function until(condition, what = condition) {
  const end = Date.now() + 5_000;
  while (!condition()) {
    if (Date.now() > end) throw new Error(`It never happened: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
