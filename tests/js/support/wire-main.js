/**
 * The entry of the page in a browser. The address has the options of `useStream` in `options`, as JSON.
 */
import { createElement as h } from "react";
import { createRoot } from "react-dom/client";

import { WirePage } from "./wire-page.js";

const options = JSON.parse(new URLSearchParams(location.search).get("options") ?? "{}");
const root = document.body.appendChild(document.createElement("div"));
createRoot(root).render(h(WirePage, { options, onRender: (stream) => void Object.assign(window, { stream }) }));
