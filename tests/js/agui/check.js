/**
 * Whether a stream is one that every AG-UI client understands, and what a client has after it.
 */
import { isDeepStrictEqual } from "node:util";

import { generations } from "./generations.js";
import { idProblems, readFrames } from "./frames.js";
import { nullsOf } from "./nulls.js";

const TERMINAL = ["RUN_FINISHED", "RUN_ERROR"];

/**
 * @typedef {object} Request
 * @property {Uint8Array} bytes the whole stream
 * @property {string[]} [for] the generations that must understand it; both unless told
 * @property {any[]} [messages] what the client has before
 * @property {any} [state] what the client has before
 */

/**
 * @typedef {object} Answer
 * @property {string[]} problems none when all is well
 * @property {any[]} messages
 * @property {any} state
 * @property {any[]} interrupts those waiting for an answer
 * @property {any[]} events
 * @property {(string | null)[]} ids of the events, null where there is none
 */

/**
 * @param {Request} request
 * @returns {Promise<Answer>}
 */
export async function check({ bytes, for: names = Object.keys(generations), messages = [], state = {} }) {
  const { frames, problems } = readFrames(bytes);
  const events = frames.map((frame) => frame.event);
  problems.push(...idProblems(frames), ...events.flatMap(nullsOf).map((path) => `null: ${path}`));
  if (!TERMINAL.includes(events.at(-1)?.type)) {
    problems.push("end: no RUN_FINISHED or RUN_ERROR, which every client takes for success");
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
 * Have the stock client take the stream, as if it had fetched it: its own parser, schemas, `verifyEvents` and
 * `defaultApplyEvents`. What it only warns about, such as a patch that does not fit, is a problem here.
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
  const said = listenToConsole();
  try {
    await agent.runAgent();
  } catch (error) {
    problems.push(`${name} client: ${error instanceof Error ? error.message : error}`);
  } finally {
    problems.push(...said.stop().map((text) => `${name} client says: ${text}`));
  }
  return { problems, final: plain({ messages: agent.messages, state: agent.state, interrupts: agent.pendingInterrupts }) };
}

/** As it would be sent: a field that is undefined in one generation and missing in the other is the same. */
const plain = (/** @type {unknown} */ value) => JSON.parse(JSON.stringify(value));

function listenToConsole() {
  const { warn, error } = console;
  /** @type {string[]} */
  const heard = [];
  console.warn = console.error = (...words) => void heard.push(words.map(String).join(" "));
  return {
    stop() {
      Object.assign(console, { warn, error });
      return heard;
    },
  };
}
