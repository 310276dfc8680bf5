/** What a test asks the page for, in its address. `openPage` of tests/js/pages/copilotkit.js writes it. */
const given = new URLSearchParams(location.search);

/** The server, which is elsewhere. */
export const server = given.get("server");
export const agent = given.get("agent") ?? undefined;
/** Without one the page has a thread of its own making. */
export const thread = given.get("thread") ?? undefined;
export const properties = JSON.parse(given.get("properties") ?? "{}");
/** Whether every request goes to one address. */
export const single = given.has("single");
/** Whether the provider is that of CopilotKit's first version. */
export const v1 = given.has("v1");

/** Which of the page's parts are there. @param {string} name */
export const has = (name) => given.getAll("with").includes(name);
