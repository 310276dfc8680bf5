/**
 * The server is killed in mid-answer by whoever runs this, when it reads KILL on standard output, and started again.
 */
import assert from "node:assert/strict";
import { it } from "node:test";

import { eachTestHasAPerson } from "../support/browser.js";
import { dictation, newThread, openPage } from "./copilotkit.js";

const KILL = "KILL THE SERVER";
const person = eachTestHasAPerson();

for (const [how, again] of [
  ["connects again", (/** @type {any} */ here) => here.press("Connect again")],
  ["is reloaded", (/** @type {any} */ here) => here.reload()],
]) {
  it(`an answer whose server is killed is completed, and said once, on a page that ${how}`, async () => {
    const { properties, say, end } = dictation();
    const here = await openPage(person(), { agent: "dictated", thread: newThread(), properties });
    await here.isEmpty();
    await here.ask("go on");
    say("one two");
    await here.shows("go on", "one two");
    process.stdout.write(`${KILL}\n`);
    await here.saysError(/network/i);
    await here.atRest();
    assert.deepEqual(await here.shown(), ["go on", "one two"], "what was said stays");

    await again(here);
    say(" three");
    await here.shows("go on", "one two three");
    end();
    await here.atRest();
    assert.deepEqual((await here.messages()).map(({ content }) => content), ["go on", "one two three"]);
    await here.judge();
  });
}
