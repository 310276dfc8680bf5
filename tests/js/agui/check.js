/**
 * Checks that every AG-UI client understands a stream, and returns what a client has after it.
 */
import { isDeepStrictEqual } from "node:util";

import { generations } from "./generations.js";
import { idProblems, readFrames } from "./frames.js";
import { nullsOf } from "./nulls.js";

const TERMINAL = ["RUN_FINISHED", "RUN_ERROR"];

/**
 * @typedef {object} Request
 * @property {Uint8Array} bytes the complete stream
 * @property {string[]} [for] the generations that must understand it, by default both
 * @property {any[]} [messages] the messages of the client before the stream
 * @property {any} [state] the state of the client before the stream
 */

/**
 * @typedef {object} Result
 * @property {string[]} problems empty if the stream is valid
 * @property {any[]} messages
 * @property {any} state
 * @property {any[]} interrupts the open interrupts
 * @property {any[]} events
 * @property {(string | null)[]} ids of the events, null for an event without one
 */

/**
 * @param {Request} request
 * @returns {Promise<Result>}
 */
export async function check({ bytes, for: names = Object.keys(generations), messages = [], state = {} }) {
  const { frames, problems } = readFrames(bytes);
  const events = frames.map((frame) => frame.event);
  problems.push(...idProblems(frames), ...events.flatMap(nullsOf).map((path) => `null: ${path}`));
  if (!TERMINAL.includes(events.at(-1)?.type)) {
    problems.push("end: no RUN_FINISHED or RUN_ERROR, which every client treats as success");
  }
  const outcomes = [];
  for (const name of names) {
    problems.push(...schemaProblems(name, events));
    const outcome = await apply(name, bytes, messages, state);
    problems.push(...outcome.problems);
    outcomes.push(outcome.final);
  }
  if (!outcomes.every((each) => isDeepStrictEqual(each, outcomes[0]))) {
    problems.push(`clients differ: ${outcomes.map((each) => JSON.stringify(each)).join(" and ")}`);
  }
  return { problems, ...outcomes[0], events, ids: frames.map(({ id }) => id ?? null) };
}

/**
 * @param {string} name
 * @param {any[]} events
 */
function schemaProblems(name, events) {
  return events.flatMap((event, index) => {
    const { success, error } = generations[name].parse(event);
    return success ? [] : [`${name} schema: event ${index} ${event.type}: ${JSON.stringify(error.issues)}`];
  });
}

/**
 * Apply the stream with the stock client, as if it had fetched it: with its parser, schemas, `verifyEvents` and
 * `defaultApplyEvents`. A warning of the client, such as for a patch that cannot be applied, is a problem here.
 *
 * @param {string} name
 * @param {Uint8Array} bytes
 * @param {any[]} messages
 * @param {any} state
 */
async function apply(name, bytes, messages, state) {
  const response = () => Promise.resolve(new Response(bytes, { headers: { "content-type": "text/event-stream" } }));
  const agent = new generations[name].HttpAgent({
    url: "http://stream.invalid/",
    threadId: "checked",
    initialMessages: messages,
    initialState: state,
    fetch: response,
  });
  /** @type {string[]} */
  const problems = [];
  const capture = captureConsole();
  try {
    await agent.runAgent();
  } catch (error) {
    problems.push(`${name} client: ${error instanceof Error ? error.message : error}`);
  } finally {
    problems.push(...capture.stop().map((text) => `${name} client says: ${text}`));
  }
  return { problems, final: toJson({ messages: agent.messages, state: agent.state, interrupts: agent.pendingInterrupts }) };
}

/** Normalize to JSON: a field may be undefined in one generation and missing in the other. */
const toJson = (/** @type {unknown} */ value) => JSON.parse(JSON.stringify(value));

function captureConsole() {
  const { warn, error } = console;
  /** @type {string[]} */
  const lines = [];
  console.warn = console.error = (...args) => void lines.push(args.map(String).join(" "));
  return {
    stop() {
      Object.assign(console, { warn, error });
      return lines;
    },
  };
}
