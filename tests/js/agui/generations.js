/**
 * The two generations of AG-UI clients in use: 1.0, and 0.0.59, which CopilotKit bundles.
 */
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";

import * as client1 from "@ag-ui/client";
import { EventSchema } from "@ag-ui/core/schemas";

const requireFromCopilotKit = createRequire(fileURLToPath(import.meta.resolve("@copilotkit/core")));
const client0 = requireFromCopilotKit("@ag-ui/client");
const { EventSchemas } = requireFromCopilotKit("@ag-ui/core");

/** @typedef {{ HttpAgent: any, parse: (event: unknown) => { success: boolean, error?: any } }} Generation */

/** @type {Record<string, Generation>} */
export const generations = {
  "1.0": { HttpAgent: client1.HttpAgent, parse: (event) => EventSchema.safeParse(event) },
  "0.0.59": { HttpAgent: client0.HttpAgent, parse: (event) => EventSchemas.safeParse(event) },
};
