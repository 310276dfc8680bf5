/**
 * The page as static files in dist/. It needs `@threadwire/ag-ui` built beside it; elsewhere that comes from npm.
 * Another folder with a page in src/, if one is named, is built like this one and with its packages.
 */
import { copyFile, rm } from "node:fs/promises";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

import { build } from "esbuild";

const here = (/** @type {string} */ path) => fileURLToPath(new URL(path, import.meta.url));
const page = resolve(process.argv[2] ?? here("."));
const dist = join(page, "dist");

await rm(dist, { recursive: true, force: true });
await build({
  entryPoints: [join(page, "src/main")],
  outdir: dist,
  bundle: true,
  format: "esm",
  splitting: true, // what markdown may need, such as diagrams and syntax colours, is loaded when it does
  minify: true,
  jsx: "automatic",
  define: { "process.env.NODE_ENV": '"production"', global: "window" },
  nodePaths: [here("node_modules")],
  alias: {
    "@threadwire/ag-ui": here("../../js/packages/ag-ui/dist/index.js"),
    "@ag-ui/client": here("node_modules/@ag-ui/client"),
  },
  loader: { ".woff2": "file", ".woff": "file", ".ttf": "file" },
  logLevel: "warning",
});
await copyFile(join(page, "index.html"), join(dist, "index.html"));
