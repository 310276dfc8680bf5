/** Tools that the agent has on the page: one that shows a notice, and one that asks a person. */
import { useCopilotAction } from "@copilotkit/react-core";
import { useFrontendTool, useHumanInTheLoop } from "@copilotkit/react-core/v2";

const NOTICE = { name: "notify", description: "Show a notice to the person." };
const APPROVAL = { name: "approve", description: "Ask the person whether that is all right." };

window.notices = [];

/** What is called, and how often, is for tests to read. */
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

const PARAMETERS = [{ name: "title", type: "string", description: "What it is about." }];

export function NoticeOfV1() {
  useCopilotAction({ ...NOTICE, parameters: PARAMETERS, handler: show });
  return null;
}

export function ApprovalOfV1() {
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
