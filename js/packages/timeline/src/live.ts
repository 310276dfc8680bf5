/** Threads that follow a server. A separate entry point, because pages may have their own transport. */
export { Api, ApiError, type ApiOptions } from "./api.js";
export { type ClientOptions, TimelineClient } from "./client.js";
export type { Connection } from "./connection.js";
export type { Responded, SubmitOptions } from "./actions.js";
export type { ReceivedEvent, ThreadView } from "./live-thread.js";
export { ThreadSession } from "./session.js";
export type { Change, ChangeEvent, Page, ServerRun } from "./changes.js";
export { LiveStore } from "./live-store.js";
