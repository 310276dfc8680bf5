/**
 * Writes the patch that adds `connect` to `LangGraphAgent` of the installed `@ag-ui/langgraph`, from the built sources
 * of this package: `npm run build && npm run patch`.
 *
 * The published package is minified, so the patch adds modules next to it and changes only its entry points.
 */
import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

import ts from "typescript";

const here = dirname(fileURLToPath(import.meta.url));
const dist = join(here, "..", "dist");
const stock = dirname(createRequire(import.meta.url).resolve("@ag-ui/langgraph/package.json"));
const MODULES = ["langgraph", "runner", "open-parts"];

/** @type {{ name: string, version: string, [key: string]: any }} */
const manifest = JSON.parse(readFileSync(join(stock, "package.json"), "utf8"));
export const PATCH = join(here, `${manifest.name.replace("/", "__")}@${manifest.version}.patch`);

/** Import the stock modules by their path. @param {string} source @param {string} extension */
const relinked = (source, extension) =>
  source
    .replaceAll(/"@ag-ui\/langgraph"/g, `"../index${extension}"`)
    .replaceAll(/"\.\/([a-z-]+)\.js"/g, `"./$1${extension}"`);

/** @param {string} source */
const asCommonJs = (source) =>
  ts.transpileModule(source, { compilerOptions: { module: ts.ModuleKind.CommonJS, target: ts.ScriptTarget.ES2022 } })
    .outputText;

const EXPORTS = "{ connectThroughAgents, LangGraphAgent }";

/** The files that the patch adds. @returns {Record<string, string>} */
function addedFiles() {
  /** @type {Record<string, string>} */
  const files = {
    "dist/with-connect.mjs": `export * from "./index.mjs";\nexport ${EXPORTS} from "./connect/langgraph.mjs";\n`,
    "dist/with-connect.js": `module.exports = { ...require("./index.js"), ...require("./connect/langgraph.js") };\n`,
  };
  for (const extension of [".d.ts", ".d.mts"]) {
    const link = extension === ".d.mts" ? ".mjs" : ".js";
    files[`dist/with-connect${extension}`] =
      `export * from "./index${link}";\nexport ${EXPORTS} from "./connect/langgraph${link}";\n`;
  }
  for (const name of MODULES) {
    const source = readFileSync(join(dist, `${name}.js`), "utf8");
    const types = readFileSync(join(dist, `${name}.d.ts`), "utf8");
    files[`dist/connect/${name}.mjs`] = relinked(source, ".mjs");
    files[`dist/connect/${name}.js`] = asCommonJs(relinked(source, ".js"));
    files[`dist/connect/${name}.d.mts`] = relinked(types, ".mjs");
    files[`dist/connect/${name}.d.ts`] = relinked(types, ".js");
  }
  return files;
}

/** @param {string} text */
const withEntryPoints = (text) => text.replaceAll("./dist/index.", "./dist/with-connect.");

/** Return the patch for the installed version. */
export function makePatch() {
  const folder = mkdtempSync(join(tmpdir(), "langgraph-patch-"));
  const git = (/** @type {string[]} */ ...args) =>
    execFileSync("git", ["-c", "core.autocrlf=false", "-c", "user.name=patch", "-c", "user.email=patch@localhost", ...args], {
      cwd: folder,
      encoding: "utf8",
      maxBuffer: 1 << 26,
    });
  try {
    cpSync(stock, folder, { recursive: true, filter: (path) => !path.slice(stock.length).includes("node_modules") });
    git("init", "--quiet");
    git("add", "--all");
    git("commit", "--quiet", "--message", "stock");
    for (const [path, content] of Object.entries(addedFiles())) {
      mkdirSync(dirname(join(folder, path)), { recursive: true });
      writeFileSync(join(folder, path), content);
    }
    const manifestPath = join(folder, "package.json");
    writeFileSync(manifestPath, withEntryPoints(readFileSync(manifestPath, "utf8")));
    git("add", "--all", "--force");
    return git("diff", "--cached", "--no-color", "--no-ext-diff", "--full-index");
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) writeFileSync(PATCH, makePatch());
