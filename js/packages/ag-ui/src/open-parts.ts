/** An AG-UI event as it comes over the wire. */
export interface WireEvent {
  readonly type: string;
  readonly [field: string]: unknown;
}

/** The event types that open and close a part, and the field that identifies the part. */
const PAIRS = [
  ["TEXT_MESSAGE_START", "TEXT_MESSAGE_END", "messageId"],
  ["TOOL_CALL_START", "TOOL_CALL_END", "toolCallId"],
  ["REASONING_START", "REASONING_END", "messageId"],
  ["REASONING_MESSAGE_START", "REASONING_MESSAGE_END", "messageId"],
  ["STEP_STARTED", "STEP_FINISHED", "stepName"],
  ["SUBAGENT_STARTED", "SUBAGENT_FINISHED", "subagentRunId"],
  ["SUBAGENT_STARTED", "SUBAGENT_ERROR", "subagentRunId"],
] as const;

const BY_OPENER = new Map<string, (typeof PAIRS)[number]>(PAIRS.toReversed().map((pair) => [pair[0], pair]));
const BY_CLOSER = new Map<string, (typeof PAIRS)[number]>(PAIRS.map((pair) => [pair[1], pair]));

export const isRunStart = (event: WireEvent): boolean => event.type === "RUN_STARTED";
export const isRunEnd = (event: WireEvent): boolean => event.type === "RUN_FINISHED" || event.type === "RUN_ERROR";
export const isSnapshot = (event: WireEvent): boolean =>
  event.type === "STATE_SNAPSHOT" || event.type === "MESSAGES_SNAPSHOT";

/** The key of the part that the event opens, if it opens one. */
export function openedPart(event: WireEvent): string | undefined {
  const pair = BY_OPENER.get(event.type);
  return pair && partKey(pair, event);
}

/** Step names are unique per subagent only; all other parts have an id. */
function partKey([opener, , field]: (typeof PAIRS)[number], event: WireEvent): string {
  const owner = opener === "STEP_STARTED" ? (event["subagentRunId"] ?? "") : "";
  return `${opener} ${owner} ${event[field]}`;
}

/** What is open after a sequence of events: the run, and its messages, tool calls, reasoning, steps and subagents. */
export class OpenParts {
  constructor(
    private readonly openers = new Map<string, WireEvent>(),
    public running = false,
  ) {}

  copy(): OpenParts {
    return new OpenParts(new Map(this.openers), this.running);
  }

  apply(event: WireEvent): void {
    if (isRunStart(event)) this.running = true;
    if (isRunEnd(event)) {
      this.running = false;
      this.openers.clear();
    }
    const key = openedPart(event);
    if (key !== undefined) this.openers.set(key, event);
    const pair = BY_CLOSER.get(event.type);
    if (pair) this.openers.delete(partKey(pair, event));
  }

  has(key: string | undefined): boolean {
    return key !== undefined && this.openers.has(key);
  }

  keys(): Set<string> {
    return new Set(this.openers.keys());
  }

  /** The events that close every part not in `except`, the last opened first. */
  closingEvents(except: ReadonlySet<string>): WireEvent[] {
    return [...this.openers]
      .filter(([key]) => !except.has(key))
      .map(([, opener]) => closingEvent(opener))
      .toReversed();
  }
}

function closingEvent(opener: WireEvent): WireEvent {
  const [, type, field] = BY_OPENER.get(opener.type)!;
  const owner = opener["subagentRunId"];
  return { type, [field]: opener[field], ...(owner === undefined ? {} : { subagentRunId: owner }) };
}
