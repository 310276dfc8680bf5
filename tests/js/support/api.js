/**
 * The server under test, and requests to its LangGraph API from outside the page.
 */
const url = process.env["SERVER_URL"];
if (!url) throw new Error("SERVER_URL is not set: run these tests with pytest, see tests/e2e");

export const serverUrl = url;

/** @param {string} method @param {string} path @param {any} [body] */
async function request(method, path, body) {
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
export const post = (path, body) => request("POST", path, body);

/** @param {string} path */
export const remove = (path) => request("DELETE", path);

/** @param {string} path */
export const get = (path) => request("GET", path);

/** @param {string} path @param {any} body */
export const patch = (path, body) => request("PATCH", path, body);
