/**
 * CopilotKit's Node runtime in front of a LangGraph API, on a port of its choosing, which it prints. The address of the
 * API and the names of its graphs are arguments.
 */
import { createServer } from "node:http";

import { CopilotRuntime } from "@copilotkit/runtime/v2";
import { createCopilotNodeListener } from "@copilotkit/runtime/v2/node";
import { LangGraphAgent } from "@copilotkit/runtime/langgraph";

const [deploymentUrl, ...graphs] = process.argv.slice(2);
const agents = Object.fromEntries(graphs.map((graphId) => [graphId, new LangGraphAgent({ deploymentUrl, graphId })]));
const listener = createCopilotNodeListener({ runtime: new CopilotRuntime({ agents }), basePath: "/copilotkit" });
const server = createServer(listener);
server.listen(0, "127.0.0.1", () => {
  console.log(`Listening on http://127.0.0.1:${/** @type {any} */ (server.address()).port}`);
});
