/** Builds the page as static files in dist/, with the packages built in js/; other projects install them from npm. */
import { copyFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { build } from "esbuild";

const here = (/** @type {string} */ path) => fileURLToPath(new URL(path, import.meta.url));
const dist = here("dist");

await rm(dist, { recursive: true, force: true });
await build({
  entryPoints: [here("src/main.tsx")],
  outdir: dist,
  bundle: true,
  format: "esm",
  minify: true,
  jsx: "automatic",
  define: { "process.env.NODE_ENV": '"production"' },
  nodePaths: [here("node_modules")], // the packages of js/ use this page's React
  alias: {
    "@threadwire/timeline/live": here("../../js/packages/timeline/dist/live.js"),
    "@threadwire/timeline/nested": here("../../js/packages/timeline/dist/nested.js"),
    "@threadwire/timeline": here("../../js/packages/timeline/dist/index.js"),
    "@threadwire/react": here("../../js/packages/react/dist/index.js"),
    react: here("node_modules/react"),
  },
  logLevel: "warning",
});
await copyFile(here("index.html"), join(dist, "index.html"));
