import type { RunAgentInput } from "@ag-ui/client";
import { randomUUID } from "@ag-ui/client";
import { Observable } from "rxjs";

/** What CopilotKit's Node runtime passes to its runner when a client connects. */
export interface ConnectRequest {
  readonly threadId: string;
  readonly agentId?: string;
  readonly headers?: Record<string, string>;
}

/** The part of a runner of CopilotKit's Node runtime that is used here. */
export interface Runner {
  connect(request: ConnectRequest): Observable<unknown>;
}

/** An agent that can connect. The `connect` of other agents is protected, or missing. */
export interface ConnectableAgent {
  headers: Record<string, string>;
  clone(): ConnectableAgent;
  connect(input: RunAgentInput): Observable<unknown>;
}

/**
 * Make the runner of CopilotKit's Node runtime call `agent.connect` for these agents. The runtime itself only replays
 * the runs that it has executed since it started.
 *
 * ```js
 * const agents = { dashboard: new LangGraphAgent({ deploymentUrl, graphId: "dashboard" }) };
 * const runtime = new CopilotRuntime({ agents, runner: connectThroughAgents(new InMemoryAgentRunner(), agents) });
 * ```
 */
export function connectThroughAgents<R extends Runner>(runner: R, agents: Record<string, ConnectableAgent>): R {
  const replay = runner.connect.bind(runner);
  runner.connect = (request) => {
    const agent = agents[request.agentId ?? "default"];
    if (!agent) return replay(request);
    const connecting = agent.clone();
    connecting.headers = { ...connecting.headers, ...request.headers };
    const { threadId } = request;
    return connecting.connect({ threadId, runId: randomUUID(), messages: [], tools: [], context: [] });
  };
  return runner;
}
