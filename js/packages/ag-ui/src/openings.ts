/** An event as it comes over the wire. */
export interface WireEvent {
  readonly type: string;
  readonly [field: string]: unknown;
}

/** What opens something, what closes it, and the field that says which. */
const PAIRS = [
  ["TEXT_MESSAGE_START", "TEXT_MESSAGE_END", "messageId"],
  ["TOOL_CALL_START", "TOOL_CALL_END", "toolCallId"],
  ["REASONING_START", "REASONING_END", "messageId"],
  ["REASONING_MESSAGE_START", "REASONING_MESSAGE_END", "messageId"],
  ["STEP_STARTED", "STEP_FINISHED", "stepName"],
  ["SUBAGENT_STARTED", "SUBAGENT_FINISHED", "subagentRunId"],
  ["SUBAGENT_STARTED", "SUBAGENT_ERROR", "subagentRunId"],
] as const;

const OPENERS = new Map<string, (typeof PAIRS)[number]>(PAIRS.toReversed().map((pair) => [pair[0], pair]));
const CLOSERS = new Map<string, (typeof PAIRS)[number]>(PAIRS.map((pair) => [pair[1], pair]));

export const isStart = (event: WireEvent): boolean => event.type === "RUN_STARTED";
export const isEnd = (event: WireEvent): boolean => event.type === "RUN_FINISHED" || event.type === "RUN_ERROR";
export const isSnapshot = (event: WireEvent): boolean =>
  event.type === "STATE_SNAPSHOT" || event.type === "MESSAGES_SNAPSHOT";

/** A name for what the event opens; nothing if it opens nothing. */
export function opened(event: WireEvent): string | undefined {
  const pair = OPENERS.get(event.type);
  return pair && nameOf(pair, event);
}

/** Steps are named per subagent; everything else has an id of its own. */
function nameOf([opener, , field]: (typeof PAIRS)[number], event: WireEvent): string {
  const owner = opener === "STEP_STARTED" ? (event["subagentRunId"] ?? "") : "";
  return `${opener} ${owner} ${event[field]}`;
}

/** What is open after a number of events: the run, and in it messages, calls, reasoning, steps and subagents. */
export class Openings {
  constructor(
    private readonly open = new Map<string, WireEvent>(),
    public running = false,
  ) {}

  copy(): Openings {
    return new Openings(new Map(this.open), this.running);
  }

  apply(event: WireEvent): void {
    if (isStart(event)) this.running = true;
    if (isEnd(event)) {
      this.running = false;
      this.open.clear();
    }
    const name = opened(event);
    if (name !== undefined) this.open.set(name, event);
    const pair = CLOSERS.get(event.type);
    if (pair) this.open.delete(nameOf(pair, event));
  }

  has(name: string | undefined): boolean {
    return name !== undefined && this.open.has(name);
  }

  names(): Set<string> {
    return new Set(this.open.keys());
  }

  /** The events that close everything but `kept`, the last opened first. */
  closing(kept: ReadonlySet<string>): WireEvent[] {
    return [...this.open]
      .filter(([name]) => !kept.has(name))
      .map(([, event]) => closer(event))
      .toReversed();
  }
}

function closer(opener: WireEvent): WireEvent {
  const [, type, field] = OPENERS.get(opener.type)!;
  const owner = opener["subagentRunId"];
  return { type, [field]: opener[field], ...(owner === undefined ? {} : { subagentRunId: owner }) };
}
