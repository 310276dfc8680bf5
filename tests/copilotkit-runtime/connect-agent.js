/**
 * Connects our `LangGraphAgent` to threads of a LangGraph API, one agent per thread, all at once. The address and the
 * graph are arguments; `threadIds` and, if the stream is resumed, `lastEventId` arrive on stdin.
 *
 * Prints each event as a line of JSON, `{threadId, event}`, what each agent holds at the end, `{threadId, held}`, and
 * `{joined}` when the server has responded to a request for the stream of a run.
 */
import { text } from "node:stream/consumers";

import { LangGraphAgent } from "../../js/packages/ag-ui/dist/langgraph.js";

const [deploymentUrl = "", graphId = ""] = process.argv.slice(2);
const { threadIds, lastEventId } = JSON.parse(await text(process.stdin));

/** @param {Record<string, unknown>} line */
const print = (line) => console.log(JSON.stringify(line));

const { fetch } = globalThis;
globalThis.fetch = async (input, init) => {
  const response = await fetch(input, init);
  const { pathname } = new URL(input instanceof Request ? input.url : input);
  if (pathname.endsWith("/stream")) print({ joined: pathname });
  return response;
};

/** @param {string} threadId */
async function connect(threadId) {
  const agent = new LangGraphAgent({ deploymentUrl, graphId, threadId });
  await agent.connectAgent(lastEventId === undefined ? {} : { forwardedProps: { lastEventId } }, {
    onEvent: ({ event: { rawEvent: _, ...event } }) => print({ threadId, event }),
  });
  print({ threadId, held: { messages: agent.messages, state: agent.state } });
}

await Promise.all(threadIds.map(connect));
