/**
 * A typical CopilotKit page: a provider with a runtime URL, and a chat. Tests add further parts through the query
 * string.
 */
import "@copilotkit/react-core/v2/styles.css";
import "./style.css";

import { CopilotKit } from "@copilotkit/react-core";
import { CopilotKitProvider } from "@copilotkit/react-core/v2";
import { createRoot } from "react-dom/client";

import { agent, has, properties, server, single, thread, v1 } from "./options.js";
import { Chat } from "./chat.jsx";
import { Interrupts, InterruptsV1 } from "./interrupts.jsx";
import { Threads } from "./threads.jsx";
import { recordError } from "./probe.jsx";
import { Approval, ApprovalV1, Notice, NoticeV1 } from "./tools.jsx";

const runtime = {
  runtimeUrl: `${server}/copilotkit`,
  properties,
  enableInspector: false,
  ...(single && { useSingleEndpoint: true }),
};

const Page = () => (
  <CopilotKitProvider {...runtime} onError={recordError}>
    {has("interrupts") && <Interrupts agentId={agent} />}
    {has("notice") && <Notice />}
    {has("approval") && <Approval />}
    {has("threads") ? <Threads agentId={agent} /> : <Chat agentId={agent} threadId={thread} />}
  </CopilotKitProvider>
);

/** The v1 provider takes the agent and the thread, and reports errors only to chats. */
const PageV1 = () => (
  <CopilotKit {...runtime} agent={agent} threadId={thread} showDevConsole={false}>
    {has("interrupts") && <InterruptsV1 />}
    {has("notice") && <NoticeV1 />}
    {has("approval") && <ApprovalV1 />}
    <Chat onError={recordError} />
  </CopilotKit>
);

createRoot(document.getElementById("root")).render(v1 ? <PageV1 /> : <Page />);
