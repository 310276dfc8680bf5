/** Interrupts on the chat page: forms, approvals and questions in the composer. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";

import { checkPicture } from "../support/pictures.js";
import { until } from "../support/until.js";
import { serverItems } from "./chat.js";
import { useChatPages } from "./chat-pages.js";

const { openPage, anotherDevice } = useChatPages();

/** @param {Awaited<ReturnType<typeof openPage>>} page @param {string} text */
const cardWith = (page, text) => page.cards.filter({ hasText: text });

describe("forms", () => {
  it("are built from the schema of each answer, and each is answered on its own", async () => {
    const page = await openPage({ agent: "approvals" });
    await page.ask("Review the expenses");
    assert.equal(await page.cards.count(), 3);
    const taxi = cardWith(page, "Taxi to the airport");
    await taxi.getByLabel("Approved").check();
    await taxi.getByLabel("Amount").fill("40.5");
    await taxi.getByRole("button", { name: "Send" }).click();
    await taxi.getByText("Answered").waitFor();
    await page.waitUntilIdle();
    assert.equal(await taxi.getByRole("button").count(), 0);
    for (const text of ["Two nights in Oslo", "Lunch with a client"]) {
      await cardWith(page, text).getByRole("button", { name: "Send" }).click();
      await cardWith(page, text).getByText("Answered").waitFor();
      await page.waitUntilIdle();
    }
    await page.answers.last().getByText("Taxi to the airport: 40.50 paid to Ana").waitFor();
    await page.answers.last().getByText("Two nights in Oslo: refused").waitFor();
    await page.checkAgainstServer("approvals");
    const shown = await page.shown();
    await page.page.reload();
    await until("the page shows the same", async () => JSON.stringify(await page.shown()) === JSON.stringify(shown));
  });

  it("whose answer the graph rejects stay open, with a notice", async () => {
    const page = await openPage({ agent: "approvals" });
    await page.ask("Reimburse c_taxi");
    const card = cardWith(page, "Taxi");
    await card.getByLabel("Amount").fill("-5");
    await card.getByRole("button", { name: "Send" }).click();
    await page.page.getByText("That answer was not accepted. Please try again.").waitFor();
    await page.waitUntilIdle();
    await card.getByLabel("Amount").fill("10");
    await card.getByLabel("Approved").check();
    await card.getByRole("button", { name: "Send" }).click();
    await page.answers.last().getByText("10.00 paid to Ana").waitFor();
  });
});

describe("approvals", () => {
  it("of two tool calls are one form: one is edited, one is rejected", async () => {
    const page = await openPage({ agent: "approvals", device: await anotherDevice({ viewport: { width: 1200, height: 900 } }) });
    await page.ask("Publish: We moved. Visit us in Harbour Street.");
    const card = cardWith(page, "Post to website");
    await checkPicture(page.page.locator("body"), "chat-approval");
    await card.getByRole("radio", { name: "Save and approve" }).check();
    await card.getByLabel("Title").fill("We are moving");
    await card.getByRole("radio", { name: "Reject" }).last().check();
    await card.getByRole("textbox", { name: "Reason" }).last().fill("Not yet");
    await card.getByRole("button", { name: "Send" }).click();
    await card.getByText("1 edited and approved, 1 rejected").waitFor();
    await page.waitUntilIdle();
    assert.match(await page.answers.last().innerText(), /“We are moving” is on the website/);
  });

  it("answered in another tab are read-only here", async () => {
    const one = await openPage({ agent: "approvals" });
    await one.ask("Reimburse c_lunch");
    const two = await openPage({ agent: "approvals", threadId: one.threadId() });
    await cardWith(two, "Lunch").getByLabel("Approved").check();
    await cardWith(two, "Lunch").getByRole("button", { name: "Send" }).click();
    await cardWith(one, "Lunch").getByText("Answered").waitFor();
    assert.equal(await cardWith(one, "Lunch").getByRole("button").count(), 0);
    await one.answers.last().getByText("86.50 paid to Chloe").waitFor();
  });
});

describe("questions in the composer", () => {
  it("are answered with a choice, then with text", async () => {
    const page = await openPage({ agent: "approvals" });
    await page.ask("Buy 2 chairs");
    const question = page.page.getByRole("form", { name: "Question" });
    await question.getByText("Which cost centre pays for 2 chairs?").waitFor();
    assert.equal(await question.getByRole("button", { name: "Answer" }).isDisabled(), true);
    await question.getByRole("radio", { name: "Sales" }).check();
    await question.getByRole("button", { name: "Answer" }).click();
    await question.getByLabel("By when does Sales need 2 chairs?").fill("Friday");
    await question.getByLabel("By when does Sales need 2 chairs?").press("Enter");
    const card = cardWith(page, "Buy 2 chairs for 360.00, paid by Sales?");
    await card.getByLabel("Approved").check();
    await card.getByRole("button", { name: "Send" }).click();
    await page.answers.last().getByText("2 chairs ordered for 360.00, needed by Friday").waitFor();
    await page.waitUntilIdle();
    const answers = await page.page.getByLabel("Answers").allInnerTexts();
    assert.deepEqual(answers.map((each) => each.split("\n").at(-1)), ["Sales", "Friday"]);
    const kinds = (await serverItems("approvals", page.threadId())).map(({ type }) => type);
    assert.equal(kinds.filter((each) => each === "structured_input").length, 2);
  });
});
