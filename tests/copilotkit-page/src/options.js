/** The options of a test, from the query string that `openPage` in tests/js/pages/copilotkit.js builds. */
const query = new URLSearchParams(location.search);

/** The URL of the server, on another origin. */
export const server = query.get("server");
export const agent = query.get("agent") ?? undefined;
/** Without one, CopilotKit creates a thread. */
export const thread = query.get("thread") ?? undefined;
export const properties = JSON.parse(query.get("properties") ?? "{}");
/** Whether every request goes to a single endpoint. */
export const single = query.has("single");
/** Whether to use the provider of CopilotKit v1. */
export const v1 = query.has("v1");

/** Whether the page has this part. @param {string} name */
export const has = (name) => query.getAll("with").includes(name);
