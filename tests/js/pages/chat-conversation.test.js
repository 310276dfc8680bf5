/** Messages, tools, cards, files and actions on the chat page. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";

import { get, patch, serverUrl } from "../support/api.js";
import { collectErrors } from "../support/browser.js";
import { checkPicture } from "../support/pictures.js";
import { until } from "../support/until.js";
import { chatPage, serverItems } from "./chat.js";
import { useChatPages } from "./chat-pages.js";

const { context, openPage, anotherDevice } = useChatPages();

const PNG = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAoAAAAKCAYAAACNMs+9AAAAFUlEQVR42mNk+M9Qz0AEYBxVSF+FABJADveWkH6oAAAAAElFTkSuQmCC",
  "base64",
);

describe("the start", () => {
  it("shows the greeting and the prompts of the project file", async () => {
    const { page } = await openPage();
    await page.getByRole("heading", { name: "Welcome to Academic Scheduling Assistant" }).waitFor();
    const prompts = await page.getByLabel("Suggestions").getByRole("button").allTextContents();
    assert.deepEqual(prompts.map((each) => each.trim()).slice(0, 3), ["Show schedule overview", "Show load distribution", "Find conflicts"]);
    assert.equal(await page.locator("openai-chatkit").getAttribute("data-scheme"), "dark");
  });

  it("sends a prompt that is clicked", async () => {
    const page = await openPage();
    await page.button("Find conflicts").click();
    await page.answers.getByText("Conflicts: 1, unassigned sections: 2").waitFor();
    assert.equal(await page.own.innerText(), "Find conflicts");
  });
});

describe("the element", () => {
  const CDN = "https://cdn.platform.openai.com/**";

  it("is the stand-in where the CDN cannot be reached", async () => {
    const page = chatPage(await context().newPage());
    await page.page.route(CDN, (route) => route.abort());
    await page.page.goto(`${serverUrl}/chat/`);
    await page.message.waitFor();
  });

  it("is OpenAI's own where it can, with the same options", async () => {
    const page = await context().newPage();
    const body = `customElements.define("openai-chatkit", class extends HTMLElement { setOptions(options) { window.options = options; } })`;
    await page.route(CDN, (route) => route.fulfill({ contentType: "text/javascript", body }));
    await page.goto(`${serverUrl}/chat/`);
    await page.waitForFunction("window.options");
    const options = await page.evaluate(() => Object(window).options);
    assert.equal(await page.evaluate(() => typeof Object(window).options.api.fetch), "function");
    assert.equal(options.api.url, `${serverUrl}/chatkit/scheduling`);
    assert.equal(options.startScreen.greeting, "Welcome to Academic Scheduling Assistant");
    assert.equal(options.theme.radius, "round");
    assert.equal(await page.locator("openai-chatkit").evaluate((element) => element.shadowRoot), null);
  });
});

describe("a response", () => {
  it("is streamed, and equals the server's items at the end", async () => {
    const page = await openPage();
    const errors = collectErrors(page.page);
    await page.page.evaluate(() => {
      const lengths = new Set();
      Object.assign(window, { lengths });
      const element = document.querySelector("openai-chatkit")?.shadowRoot;
      if (!element) throw new Error("no element");
      new MutationObserver(() => lengths.add(element.querySelector(".assistant")?.textContent?.length ?? 0)).observe(element, {
        childList: true, subtree: true, characterData: true,
      });
    });
    await page.ask("Hello");
    assert.ok((await page.page.evaluate(() => Object(window).lengths.size)) >= 5);
    await page.checkAgainstServer("scheduling");
    assert.match(await page.answers.innerText(), /^I look after the timetable/);
    assert.deepEqual(errors, []);
  });

  it("shows the progress of a tool with its icon, then its result and cards", async () => {
    const page = await openPage();
    await page.page.evaluate(() => {
      const seen = new Set();
      Object.assign(window, { seen });
      const element = document.querySelector("openai-chatkit")?.shadowRoot;
      if (!element) throw new Error("no element");
      const look = () => {
        for (const each of element.querySelectorAll(".progress")) {
          seen.add(`${each.querySelector("svg")?.getAttribute("data-icon")}: ${each.textContent}`);
        }
      };
      new MutationObserver(look).observe(element, { childList: true, subtree: true, characterData: true });
    });
    await page.ask("Show schedule overview");
    assert.deepEqual(await page.page.evaluate(() => [...Object(window).seen]), ["calendar: 🔧 Using tool: schedule overview…"]);
    const steps = page.steps;
    assert.equal(await steps.locator("svg").first().getAttribute("data-icon"), "calendar");
    await steps.getByRole("button").click();
    await steps.getByText("Alice: 8.0h/12.0 (66.7%)").waitFor();
    await page.cards.getByRole("heading", { name: "Teacher workloads" }).waitFor();
    const list = page.page.getByRole("region", { name: "List" });
    assert.equal(await list.getByRole("listitem").count(), 4);
    await list.getByRole("button", { name: "Show 4 more" }).click();
    assert.equal(await list.getByRole("listitem").count(), 8);
    assert.match(await page.answers.last().innerText(), /Alice: 8.0h\/12.0 \(66.7%\)/);
    await page.checkAgainstServer("scheduling");
  });

  it("draws a chart", async () => {
    const page = await openPage();
    await page.ask("Show load distribution");
    await page.page.getByRole("img", { name: "Alice: 8; Bob: 6; Carol: 5; Dan: 2" }).waitFor();
  });

  it("shows a failed tool call with a warning", async () => {
    const page = await openPage();
    await page.ask("Assign s_history to t_dan and give s_french to t_dan");
    await page.steps.getByRole("button").click();
    await page.steps.locator('[data-icon="lucide:triangle-alert"]').first().waitFor();
    await page.steps.getByText("over the maximum of 6.0h").waitFor();
  });
});

describe("an answer", () => {
  it("can be rated, and the server knows it", async () => {
    const page = await openPage();
    await page.ask("Hello");
    await page.button("Good response").click();
    await page.page.locator('button[aria-label="Good response"][aria-pressed="true"]').waitFor();
    await page.button("Bad response").click();
    await page.page.locator('button[aria-label="Bad response"][aria-pressed="true"]').waitFor();
    assert.equal(await page.button("Good response").getAttribute("aria-pressed"), "false");
    const { feedback } = await get(`/chatkit/scheduling/threads/${page.threadId()}/feedback`);
    assert.deepEqual(feedback.map((/** @type {any} */ { kind }) => kind), ["negative"]);
  });

  it("can be replaced by another answer to the same message", async () => {
    const page = await openPage();
    await page.ask("Find conflicts");
    await page.ask("Show load distribution");
    const before = (await page.shown()).map(([id]) => id);
    await page.button("Retry").first().click();
    await until("the second turn is removed", async () => (await page.own.count()) === 1);
    await page.waitUntilIdle();
    await page.checkAgainstServer("scheduling");
    assert.equal((await page.shown())[0]?.[0], before[0]);
    assert.match(await page.answers.last().innerText(), /Conflicts: 1/);
  });
});

describe("a message that the server rejects", () => {
  it("goes back to the composer, and nothing else changes", async () => {
    const page = await openPage();
    await page.ask("Hello");
    const before = await page.shown();
    const status = { type: "closed", reason: "The term is over." };
    await page.message.fill("Find conflicts"); // first, because the page disables the composer when it knows the status
    await patch(`/threads/${page.threadId()}`, { metadata: { chatkit_status: status } });
    await page.message.press("Enter");
    const alert = page.page.getByRole("alert");
    await alert.getByText("The term is over.").waitFor();
    assert.equal(await page.message.inputValue(), "Find conflicts");
    assert.equal(await alert.getByRole("button").count(), 0);
    assert.deepEqual(await page.shown(), before);
  });

  it("is shown on the first screen, too", async () => {
    const page = await openPage();
    await page.page.route("**/chatkit/scheduling", (route) => route.fulfill({ status: 429, json: { detail: "Too many requests." } }));
    await page.send("Find conflicts");
    await page.page.getByRole("alert").getByText("Too many requests.").waitFor();
    assert.equal(await page.message.inputValue(), "Find conflicts");
    await page.page.unrouteAll();
    await page.message.press("Enter");
    await page.answers.getByText("Conflicts: 1").waitFor();
  });
});

describe("files", () => {
  it("are uploaded, previewed, sent, and shown again after a reload", async () => {
    const page = await openPage();
    const chooser = page.page.waitForEvent("filechooser");
    await page.button("Attach files").click();
    await (await chooser).setFiles([
      { name: "plan.png", mimeType: "image/png", buffer: PNG },
      { name: "notes.txt", mimeType: "text/plain", buffer: Buffer.from("Dan is ill on Friday.") },
    ]);
    await until("both are uploaded", async () => (await page.page.locator('.composer [data-state="ready"]').count()) === 2);
    await page.ask("Find conflicts");
    const sent = page.own.getByLabel("Attachments");
    assert.match((await sent.innerText()).trim(), /notes\.txt/);
    assert.ok(await sent.getByRole("img", { name: "plan.png" }).evaluate((image) => Object(image).complete && Object(image).naturalWidth > 0));
    await page.page.reload();
    await page.own.getByRole("img", { name: "plan.png" }).waitFor();
    const [message] = await serverItems("scheduling", page.threadId());
    assert.deepEqual(message.attachments.map((/** @type {any} */ { name }) => name), ["plan.png", "notes.txt"]);
  });

  it("that the server does not accept are marked, and nothing is sent", async () => {
    const page = await openPage();
    const chooser = page.page.waitForEvent("filechooser");
    await page.button("Attach files").click();
    await (await chooser).setFiles({ name: "plan.png", mimeType: "image/png", buffer: Buffer.from("not an image") });
    await page.page.getByRole("alert").getByText("The content of the file is not image/png").waitFor();
    await page.send("Find conflicts");
    assert.equal(await page.own.count(), 0);
    await page.button("Remove plan.png").click();
    await page.message.press("Enter");
    await page.answers.getByText("Conflicts: 1").waitFor();
  });
});

describe("the page", () => {
  it("works with the keyboard alone", async () => {
    const { page, own, answers } = await openPage();
    await page.getByLabel("Suggestions").getByRole("button").first().focus();
    await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    await own.getByText("Show load distribution").waitFor();
    await answers.last().getByText("The average is").waitFor();
  });

  it("does not move when a refresh finds nothing new", async () => {
    const page = await openPage({ device: await anotherDevice({ viewport: { width: 390, height: 500 } }) });
    await page.ask("Show schedule overview");
    await page.steps.getByRole("button").click();
    const position = () => page.log.evaluate((log) => log.parentElement?.scrollTop);
    const before = await position();
    await page.page.evaluate(() => Object(document.querySelector("openai-chatkit")).fetchUpdates());
    assert.equal(await position(), before);
  });

  it("fits a phone with 320 pixels, in light and dark", async () => {
    const device = await anotherDevice({ viewport: { width: 320, height: 640 } });
    const page = await openPage({ device });
    await page.ask("Show schedule overview");
    const width = () => page.page.evaluate(() => document.documentElement.scrollWidth);
    assert.equal(await width(), 320);
    await page.button("Light mode").click();
    assert.equal(await page.page.locator("openai-chatkit").getAttribute("data-scheme"), "light");
    await page.page.reload();
    await page.button("Dark mode").waitFor();
    assert.equal(await width(), 320);
    await device.close();
  });

  it("looks as in the documentation", async () => {
    const page = await openPage({ device: await anotherDevice({ viewport: { width: 1200, height: 900 } }) });
    await page.ask("Show schedule overview");
    await page.steps.getByRole("button").click();
    await page.log.evaluate((log) => log.parentElement?.scrollTo({ top: 0 }));
    await checkPicture(page.page.locator("body"), "chat");
    const phone = await openPage({ device: await anotherDevice({ viewport: { width: 390, height: 780 } }) });
    await phone.button("Light mode").click();
    await phone.ask("Show load distribution");
    await checkPicture(phone.page.locator("body"), "chat-phone");
  });
});
