/**
 * The entry of the Svelte page, with the same address and elements as the React page.
 */
import { mount } from "svelte";

import WirePage from "./WirePage.svelte";

mount(WirePage, { target: document.body });
