/**
 * CopilotKit's Node runtime in front of a LangGraph API, with agents that connect. It prints the URL. The address of the
 * API and the names of its graphs are arguments.
 */
import { createServer } from "node:http";

import { CopilotRuntime, InMemoryAgentRunner } from "@copilotkit/runtime/v2";
import { createCopilotNodeListener } from "@copilotkit/runtime/v2/node";

import { connectThroughAgents, LangGraphAgent } from "../../js/packages/ag-ui/dist/langgraph.js";

const [deploymentUrl = "", ...graphs] = process.argv.slice(2);
/** @type {Record<string, any>} */
const agents = Object.fromEntries(graphs.map((graphId) => [graphId, new LangGraphAgent({ deploymentUrl, graphId })]));
const runner = connectThroughAgents(new InMemoryAgentRunner(), agents);
const runtime = new CopilotRuntime({ agents, runner });
const server = createServer(createCopilotNodeListener({ runtime, basePath: "/copilotkit" }));
server.listen(0, "127.0.0.1", () => {
  console.log(`Listening on http://127.0.0.1:${/** @type {any} */ (server.address()).port}`);
});
