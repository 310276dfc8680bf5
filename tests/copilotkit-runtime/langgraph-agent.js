/**
 * Runs AG-UI's `LangGraphAgent` once against a LangGraph API: the address and the graph are arguments, the run's input
 * arrives on stdin. Prints each event as a line of JSON.
 */
import { text } from "node:stream/consumers";

import { LangGraphAgent } from "@ag-ui/langgraph";

const [deploymentUrl, graphId] = process.argv.slice(2);
const { threadId, messages, forwardedProps } = JSON.parse(await text(process.stdin));
const agent = new LangGraphAgent({ deploymentUrl, graphId, threadId, initialMessages: messages });
await agent.runAgent(
  { forwardedProps },
  { onEvent: ({ event: { rawEvent: _, ...event } }) => console.log(JSON.stringify(event)) },
);
