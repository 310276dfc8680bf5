import assert from "node:assert/strict";
import test from "node:test";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

import { build } from "esbuild";

const dist = fileURLToPath(new URL("../dist/", import.meta.url));

/** The size of what an application gets that imports everything from these entry points. */
async function gzipped(...entries) {
  const contents = entries.map((entry) => `export * from "./${entry}.js";`).join("\n");
  const stdin = { contents, resolveDir: dist };
  const { outputFiles } = await build({ stdin, bundle: true, minify: true, format: "esm", write: false });
  return gzipSync(outputFiles[0].contents, { level: 9 }).length;
}

test("the package has at most 12 kB", async () => {
  assert.ok((await gzipped("index")) <= 12_000);
});

test("the package and its connection to a server have at most 19.5 kB", async () => {
  assert.ok((await gzipped("index", "live", "nested")) <= 19_500);
});
