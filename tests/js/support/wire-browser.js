/**
 * The page of wire-page.js in Chromium, bundled and served from an origin of its own.
 */
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { fileURLToPath } from "node:url";

import { build } from "esbuild";
import { compile, compileModule } from "svelte/compiler";

import { apiUrl } from "./sdk.js";

/** @type {import("esbuild").Plugin} */
const svelte = {
  name: "svelte",
  setup(building) {
    building.onLoad({ filter: /\.svelte(\.js)?$/ }, async ({ path: filename }) => {
      const source = await readFile(filename, "utf8");
      const compiled = filename.endsWith(".js") ? compileModule(source, { filename }) : compile(source, { filename });
      return { contents: compiled.js.code, loader: "js" };
    });
  },
};

/**
 * Serve the page at http://localhost:3000, an origin that the server accepts.
 *
 * @param {string} entry
 */
export async function servePage(entry = "wire-main.js") {
  const { outputFiles } = await build({
    entryPoints: [fileURLToPath(new URL(entry, import.meta.url))],
    plugins: [svelte],
    conditions: ["svelte", "browser"],
    bundle: true,
    format: "esm",
    write: false,
    define: { "process.env.NODE_ENV": '"production"', global: "window" },
    logLevel: "error",
  });
  const script = outputFiles[0].text;
  const server = createServer((request, response) => {
    const isScript = request.url === "/page.js";
    response.setHeader("content-type", isScript ? "text/javascript" : "text/html");
    response.end(isScript ? script : '<!doctype html><body><script type="module" src="/page.js"></script>');
  });
  await new Promise((resolve) => server.listen(3000, "localhost", () => resolve(undefined)));
  return () => server.close();
}

/**
 * @param {import("playwright-core").BrowserContext} context
 * @param {Record<string, any>} options of `useStream`
 */
export async function openPage(context, options) {
  const page = await context.newPage();
  await page.goto(`http://localhost:3000/?options=${encodeURIComponent(JSON.stringify({ apiUrl, ...options }))}`);
  await page.waitForFunction("window.stream");
  return {
    page,
    /** @param {string} text @param {Record<string, any>} [how] */
    send: (text, how) =>
      page.evaluate(
        ([content, options]) =>
          void (/** @type {any} */ (window).stream.submit({ messages: [{ role: "user", content }] }, options)),
        /** @type {const} */ ([text, how]),
      ),
    /** @param {string} method @param {unknown[]} values */
    call: (method, ...values) =>
      page.evaluate(([name, args]) => void /** @type {any} */ (window).stream[name](...args), /** @type {const} */ ([method, values])),
    threadId: async () => (await page.locator("main").getAttribute("data-thread")) ?? "",
    /** @param {string} text */
    waitForText: (text) => page.locator("ol li", { hasText: text }).last().waitFor({ timeout: 30_000 }),
    waitUntilIdle: () => page.locator('main[aria-busy="false"]').waitFor({ timeout: 60_000 }),
    /** @returns {Promise<string[]>} */
    messages: () => page.locator("ol li").allTextContents(),
    /** The checkpoint before each message. @returns {Promise<string[]>} */
    parents: () => page.locator("ol li").evaluateAll((all) => all.map((each) => each.dataset.parent ?? "")),
    interrupts: () => page.getByRole("dialog").allTextContents(),
  };
}
