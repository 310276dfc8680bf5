import assert from "node:assert/strict";
import { it } from "node:test";

import { eachTestHasAPerson } from "../support/browser.js";
import { picture } from "../support/pictures.js";
import { newThread, openPage, v1 } from "./copilotkit.js";

const person = eachTestHasAPerson();

/** @param {string} agent @param {string} question */
async function asked(agent, question) {
  const here = await openPage(person(), { agent, thread: newThread(), with: "questions" });
  await here.isEmpty();
  await here.ask(question);
  return here;
}

it("an interrupt is asked once, though the page is told of it in two ways, and again after each reload", async () => {
  const here = await asked("asks", "Paint it?");
  await here.asksFor("outcome: Paint it?");
  await here.reload();
  await here.asksFor("outcome: Paint it?");
  await here.reload();
  await here.asksFor("outcome: Paint it?");

  await here.press("yes");
  await here.shows("Paint it?", "So: Paint it? yes");
  await here.asksFor();
  const [{ interruptId, ...answer }, ...others] = here.asked("run")[0].body.resume;
  assert.deepEqual([typeof interruptId, answer, others], ["string", { status: "resolved", payload: "yes" }, []]);
  await here.atRest();
  assert.deepEqual(await here.errors(), []);

  await here.reload();
  await here.shows("Paint it?", "So: Paint it? yes");
  await here.asksFor();
  await here.judge();
});

it("an interrupt is answered without a reload too, and the next one is another", async () => {
  const here = await asked("asks", "Paint it?");
  await here.asksFor("outcome: Paint it?");
  await here.press("no");
  await here.shows("Paint it?", "So: Paint it? no");
  await here.atRest();
  await here.ask("Polish it?");
  await here.asksFor("outcome: Polish it?");
  await here.press("yes");
  await here.shows("Paint it?", "So: Paint it? no", "Polish it?", "So: Paint it? no Polish it? yes");
  assert.deepEqual(await here.errors(), []);
  await here.judge();
});

it("an agent that tells of interrupts by event alone is asked for and answered in the older way", async () => {
  const here = await asked("asks_by_event", "Paint it?");
  await here.asksFor("event: Paint it?");
  await here.reload();
  await here.asksFor("event: Paint it?");

  await here.press("yes");
  await here.shows("Paint it?", "So: Paint it? yes");
  await here.asksFor();
  const { resume, forwardedProps } = here.asked("run")[0].body;
  assert.deepEqual([resume, forwardedProps.command.resume], [undefined, "yes"]);
  assert.deepEqual(await here.errors(), []);
  await here.judge();
});

// The hook of the first version has one question at a time, and no way to dismiss it.
if (!v1) {
  it("several interrupts are asked at once, and answered together", async () => {
    const here = await asked("asks", "Paint it? Polish it?");
    await here.asksFor("outcome: Paint it?", "outcome: Polish it?");
    await here.reload();
    await here.asksFor("outcome: Paint it?", "outcome: Polish it?");
    await here.page.setViewportSize({ width: 800, height: 480 });
    await picture(here.chat, "interrupts");

    await here.answer("Polish it?", "no");
    assert.equal(here.asked("run").length, 0, "it waits for the other answer");
    await here.answer("Paint it?", "yes");
    await here.shows("Paint it? Polish it?", "So: Paint it? yes Polish it? no");
    assert.equal(here.asked("run")[0].body.resume.length, 2);
    assert.deepEqual(await here.errors(), []);
    await here.judge();
  });

  it("a dismissed interrupt is told to the graph", async () => {
    const here = await asked("asks", "Paint it?");
    await here.asksFor("outcome: Paint it?");
    await here.press("dismiss");
    await here.asksFor();
    await here.atRest();
    assert.match((await here.messages()).at(-1).content, /^So: Paint it\? .*__agui_cancelled__/);
    assert.deepEqual(await here.errors(), []);
    await here.judge();
  });
}
