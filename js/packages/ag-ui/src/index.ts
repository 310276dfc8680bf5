export { ThreadwireAgent, type ThreadwireAgentConfig } from "./agent.js";
export type { Connection, ConnectionStatus, StatusListener } from "./connection.js";
export type { RetryPolicy } from "./retry.js";
export { mirror } from "./mirror.js";
