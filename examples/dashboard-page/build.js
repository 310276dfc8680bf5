/**
 * The page as static files in dist/. It needs `@threadwire/ag-ui` built beside it; elsewhere that comes from npm.
 */
import { copyFile, rm } from "node:fs/promises";
import { fileURLToPath } from "node:url";

import { build } from "esbuild";

const here = (/** @type {string} */ path) => fileURLToPath(new URL(path, import.meta.url));

await rm(here("dist"), { recursive: true, force: true });
await build({
  entryPoints: [here("src/main.tsx")],
  outdir: here("dist"),
  bundle: true,
  format: "esm",
  splitting: true, // what markdown may need, such as diagrams and syntax colours, is loaded when it does
  minify: true,
  define: { "process.env.NODE_ENV": '"production"', global: "window" },
  alias: {
    "@threadwire/ag-ui": here("../../js/packages/ag-ui/dist/index.js"),
    "@ag-ui/client": here("node_modules/@ag-ui/client"),
  },
  loader: { ".woff2": "file", ".woff": "file", ".ttf": "file" },
  logLevel: "warning",
});
await copyFile(here("index.html"), here("dist/index.html"));
