/**
 * Resolves `@ag-ui/client` to the installed package that the environment variable CLIENT names, if it is set.
 */
import { register } from "node:module";

const hook = `
  export const resolve = (specifier, context, next) =>
    next(specifier === "@ag-ui/client" ? ${JSON.stringify(process.env["CLIENT"])} : specifier, context);
`;
if (process.env["CLIENT"]) register(`data:text/javascript,${encodeURIComponent(hook)}`);
