/**
 * Measures a page with many blocks in Chromium: `node measure.js URL THREAD BLOCKS`. Prints one line of JSON: the
 * milliseconds from a navigation to the paint from the cache, and the main thread's microseconds per token.
 */
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const { build } = createRequire(here("../../js/package.json"))("esbuild");
const { chromium } = createRequire(here("../../tests/js/package.json"))("playwright-core");

const TURNS = 3;
const TOKENS = 1000;
const RATE = 200;

const [url, threadId, blocks] = process.argv.slice(2);
const address = `${url}/bench-page/?thread=${threadId}&blocks=${blocks}`;

async function bundle() {
  const { outputFiles } = await build({
    entryPoints: [here("page.js")],
    bundle: true,
    minify: true,
    format: "esm",
    write: false,
    define: { "process.env.NODE_ENV": '"production"' },
    nodePaths: [here("../../js/node_modules")],
  });
  return outputFiles[0].text;
}

const executablePath = ["/usr/bin/chromium", "/usr/bin/google-chrome"].find(existsSync);
if (!executablePath) throw new Error("Chromium is not installed");
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
try {
  const context = await browser.newContext();
  const script = await bundle();
  await context.route("**/bench-page/*", (route) =>
    route.request().url().endsWith("page.js")
      ? route.fulfill({ contentType: "text/javascript", body: script })
      : route.fulfill({ contentType: "text/html", body: '<!doctype html><div id="root"></div><script type="module" src="page.js"></script>' }),
  );
  await fillCache(context);
  const paint = [];
  for (let turn = 0; turn < TURNS; turn++) paint.push(await paintFromCache(context));
  const perToken = [];
  for (let turn = 0; turn < TURNS; turn++) perToken.push(await timePerToken(context));
  console.log(JSON.stringify({ paint, perToken }));
} finally {
  await browser.close();
}

async function fillCache(context) {
  const page = await openLive(context);
  await run({ count: 1 }); // earlier pages are stored with the next change
  await page.waitForTimeout(1000); // until it is stored
  await page.close();
}

function run(input) {
  return fetch(`${url}/threads/${threadId}/runs/wait`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ assistant_id: "tokens", input }),
  });
}

async function openLive(context) {
  const page = await context.newPage();
  await page.goto(address);
  await page.waitForFunction((count) => window.shown?.state === "live" && window.shown.count >= count, Number(blocks));
  return page;
}

/** Paint without the server: no request gets a response. */
async function paintFromCache(context) {
  const page = await context.newPage();
  await page.route("**/threads/**", () => undefined);
  await page.goto(address);
  await page.waitForFunction(() => window.paintedAt !== undefined);
  const paintedAt = await page.evaluate(() => window.paintedAt);
  await page.unrouteAll({ behavior: "ignoreErrors" });
  await page.close();
  return paintedAt;
}

async function timePerToken(context) {
  const page = await openLive(context);
  const session = await context.newCDPSession(page);
  await session.send("Performance.enable");
  const busy = async () => {
    const { metrics } = await session.send("Performance.getMetrics");
    return metrics.find(({ name }) => name === "TaskDuration").value;
  };
  const before = await busy();
  await run({ count: TOKENS, rate: RATE });
  await page.waitForFunction(() => !window.shown.isLoading);
  const spent = (await busy()) - before;
  await page.close();
  return (spent / TOKENS) * 1e6;
}
