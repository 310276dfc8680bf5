/**
 * The server that a page is tried with, and its LangGraph API: what programs do while the page is open.
 */
const given = process.env["SERVER_URL"];
if (!given) throw new Error("SERVER_URL is not set: these tests are run by pytest, see tests/e2e");

export const serverUrl = given;

/** @param {string} method @param {string} path @param {any} [body] */
async function ask(method, path, body) {
  const response = await fetch(`${serverUrl}${path}`, {
    method,
    headers: { "content-type": "application/json" },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(text);
  return text ? JSON.parse(text) : undefined;
}

/** @param {string} path @param {any} body */
export const post = (path, body) => ask("POST", path, body);

/** @param {string} path */
export const remove = (path) => ask("DELETE", path);
