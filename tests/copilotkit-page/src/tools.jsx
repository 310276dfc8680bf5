/** Frontend tools: one that shows a notice, and one that asks the user for approval. */
import { useCopilotAction } from "@copilotkit/react-core";
import { useFrontendTool, useHumanInTheLoop } from "@copilotkit/react-core/v2";

const NOTICE = { name: "notify", description: "Show a notice to the user." };
const APPROVAL = { name: "approve", description: "Ask the user for approval." };

window.notices = [];

/** Records each call for the tests. */
function show({ title }) {
  window.notices.push(title);
  return `shown: ${title}`;
}

export function Notice() {
  useFrontendTool({ ...NOTICE, handler: async (args) => show(args) });
  return null;
}

export function Approval() {
  useHumanInTheLoop({ ...APPROVAL, render: Request });
  return null;
}

const PARAMETERS = [{ name: "title", type: "string", description: "The title to show." }];

export function NoticeV1() {
  useCopilotAction({ ...NOTICE, parameters: PARAMETERS, handler: show });
  return null;
}

export function ApprovalV1() {
  useCopilotAction({ ...APPROVAL, parameters: PARAMETERS, renderAndWaitForResponse: Request });
  return null;
}

function Request({ status, args, respond }) {
  return (
    <fieldset data-request={status}>
      <legend>{args.title}</legend>
      <button type="button" disabled={!respond} onClick={() => respond?.("approved")}>
        Approve
      </button>
    </fieldset>
  );
}
