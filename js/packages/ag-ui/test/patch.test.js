import "./support/quiet.js";

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { after, before, describe, it } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";

import { makePatch, PATCH } from "../patches/make.js";

const here = dirname(fileURLToPath(import.meta.url));
const stock = dirname(createRequire(import.meta.url).resolve("@ag-ui/langgraph/package.json"));

/** A server's client that knows one idle thread. @type {any} */
const client = {
  threads: { getState: async () => ({ values: { apy: 4.2, messages: [] }, next: [], tasks: [] }) },
  runs: { list: async () => [] },
};

/** @param {any} LangGraphAgent */
async function connectedTypes(LangGraphAgent) {
  const agent = new LangGraphAgent({ deploymentUrl: "http://fake.invalid", graphId: "g", threadId: "t", client });
  /** @type {string[]} */
  const types = [];
  await agent.connectAgent({}, { onEvent: (/** @type {any} */ { event }) => void types.push(event.type) });
  return types;
}

const SNAPSHOT_ONLY = ["RUN_STARTED", "STATE_SNAPSHOT", "MESSAGES_SNAPSHOT", "RUN_FINISHED"];

describe("the patch for pnpm", () => {
  /** @type {string} */
  let folder;

  before(() => {
    // Inside this package, so that the patched package finds its dependencies.
    folder = mkdtempSync(join(here, "patched-"));
    cpSync(stock, folder, { recursive: true });
    execFileSync("git", ["apply", "--unsafe-paths", `--directory=${folder}`, PATCH], { cwd: "/" });
  });
  after(() => rmSync(folder, { recursive: true, force: true }));

  it("is what the sources of this package produce", () => {
    assert.ok(readFileSync(PATCH, "utf8") === makePatch(), "The patch is out of date: run `npm run patch`");
  });

  it("names the version that it applies to", () => {
    const { version } = JSON.parse(readFileSync(join(stock, "package.json"), "utf8"));
    assert.ok(existsSync(PATCH) && PATCH.endsWith(`@ag-ui__langgraph@${version}.patch`));
  });

  it("adds connect to the LangGraphAgent of both module systems", async () => {
    const manifest = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
    const esm = await import(pathToFileURL(join(folder, manifest.exports["."].import)).href);
    const cjs = createRequire(import.meta.url)(join(folder, manifest.exports["."].require));
    for (const { LangGraphAgent } of [esm, cjs]) assert.deepEqual(await connectedTypes(LangGraphAgent), SNAPSHOT_ONLY);
  });

  it("passes the tests of this package's LangGraphAgent", () => {
    const { NODE_TEST_CONTEXT: _, ...environment } = process.env; // the tests run on their own, not as a part of this one
    const patched = pathToFileURL(join(folder, "dist/with-connect.mjs")).href;
    const command = ["--import", "./support/client.js", "--test", "--test-reporter=tap", "langgraph.test.js"];
    const env = { ...environment, LANGGRAPH_AGENT: patched };
    const printed = execFileSync(process.execPath, command, { cwd: here, env, encoding: "utf8" });
    assert.match(printed, /^# pass [1-9]/m);
  });

  it("leaves everything else as it was", async () => {
    const before = await import("@ag-ui/langgraph");
    const patched = await import(pathToFileURL(join(folder, "dist/with-connect.mjs")).href);
    const added = Object.keys(patched).filter((name) => !(name in before));
    assert.deepEqual(added, ["connectThroughAgents"]);
    assert.ok(Object.keys(before).every((name) => name in patched));
  });
});
