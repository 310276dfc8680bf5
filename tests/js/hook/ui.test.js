import assert from "node:assert/strict";
import { after, test } from "node:test";

import { runScript } from "../support/dom.js";

import { cleanup, render } from "@testing-library/react";
import { createElement as h } from "react";

import { client, sdk } from "../support/sdk.js";
import { until } from "../support/until.js";

const { LoadExternalComponent } = await import(`${sdk}/react-ui`);

after(cleanup);

test("a page shows a component from the server", async () => {
  const message = { type: "ui", id: "1", name: "weather", props: { city: "Bern" } };

  const { container } = render(
    h(LoadExternalComponent, { stream: { client, assistantId: "chat" }, message, fallback: "Loading" }),
  );

  assert.equal(container.textContent, "Loading");
  const root = await until("the shadow root exists", () => container.querySelector("div")?.shadowRoot);
  runScript(await until("the script element exists", () => root.querySelector("script")));
  const shown = await until("the component is shown", () => root.querySelector("b"));
  assert.equal(shown.textContent, "Sunny in Bern");
  assert.ok(root.querySelector('link[rel="stylesheet"]'));
});
