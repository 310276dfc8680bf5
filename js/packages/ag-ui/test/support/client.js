/**
 * With CLIENT set to another installed version, the package under test gets that for `@ag-ui/client`.
 */
import { register } from "node:module";

const hook = `
  export const resolve = (specifier, context, next) =>
    next(specifier === "@ag-ui/client" ? ${JSON.stringify(process.env["CLIENT"])} : specifier, context);
`;
if (process.env["CLIENT"]) register(`data:text/javascript,${encodeURIComponent(hook)}`);
