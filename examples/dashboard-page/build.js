/**
 * Builds the page as static files in dist/. Uses the `@threadwire/ag-ui` built in js/; other projects install it from
 * npm. Given the path of another folder with a page in src/, builds that page instead, with the packages of this one.
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
  splitting: true, // load what some markdown needs, such as diagrams and syntax highlighting, on demand
  minify: true,
  jsx: "automatic",
  define: { "process.env.NODE_ENV": '"production"', global: "window" },
  nodePaths: [here("node_modules")],
  alias: {
    "@threadwire/ag-ui/react": here("../../js/packages/ag-ui/dist/react.js"),
    "@threadwire/ag-ui": here("../../js/packages/ag-ui/dist/index.js"),
    react: here("node_modules/react"),
    "@ag-ui/client": here("node_modules/@ag-ui/client"),
  },
  loader: { ".woff2": "file", ".woff": "file", ".ttf": "file" },
  logLevel: "warning",
});
await copyFile(join(page, "index.html"), join(dist, "index.html"));
