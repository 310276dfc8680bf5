/** Builds the page as static files in dist/. The stand-in for ChatKit's element is loaded only where it is needed. */
import { copyFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { build } from "esbuild";
import { icons } from "lucide";

const here = (/** @type {string} */ path) => fileURLToPath(new URL(path, import.meta.url));
const dist = here("dist");

await rm(dist, { recursive: true, force: true });
await build({
  entryPoints: [here("src/main.tsx")],
  outdir: dist,
  bundle: true,
  splitting: true,
  chunkNames: "chunks/[name]-[hash]",
  format: "esm",
  minify: true,
  jsx: "automatic",
  loader: { ".shadow.css": "text" }, // the stand-in's own style, inside its shadow root
  define: { "process.env.NODE_ENV": '"production"' },
  logLevel: "warning",
});
// All icons are larger than the rest of the page. They are loaded when an item names one that the page does not have.
await writeFile(join(dist, "icons.json"), JSON.stringify(icons));
await copyFile(here("index.html"), join(dist, "index.html"));
