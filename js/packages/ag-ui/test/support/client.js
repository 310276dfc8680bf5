/**
 * Replaces packages of the tests: `@ag-ui/client` by the installed package that the environment variable CLIENT names,
 * and our `LangGraphAgent` by the module whose URL is in LANGGRAPH_AGENT.
 */
import { register } from "node:module";

const { CLIENT, LANGGRAPH_AGENT } = process.env;
const replacements = Object.fromEntries(
  Object.entries({ "@ag-ui/client": CLIENT, "../dist/langgraph.js": LANGGRAPH_AGENT }).filter(([, value]) => value),
);
const hook = `
  const replacements = ${JSON.stringify(replacements)};
  export const resolve = (specifier, context, next) => next(replacements[specifier] ?? specifier, context);
`;
register(`data:text/javascript,${encodeURIComponent(hook)}`);
