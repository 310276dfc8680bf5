/**
 * The two generations of AG-UI clients that are in use: 1.0, and the 0.0.59 that every CopilotKit page has inside.
 */
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";

import * as client1 from "@ag-ui/client";
import { EventSchema } from "@ag-ui/core/schemas";

const insideCopilotKit = createRequire(fileURLToPath(import.meta.resolve("@copilotkit/core")));
const client0 = insideCopilotKit("@ag-ui/client");
const { EventSchemas } = insideCopilotKit("@ag-ui/core");

/** @typedef {{ HttpAgent: any, parse: (event: unknown) => { success: boolean, error?: any } }} Generation */

/** @type {Record<string, Generation>} */
export const generations = {
  "1.0": { HttpAgent: client1.HttpAgent, parse: (event) => EventSchema.safeParse(event) },
  "0.0.59": { HttpAgent: client0.HttpAgent, parse: (event) => EventSchemas.safeParse(event) },
};
