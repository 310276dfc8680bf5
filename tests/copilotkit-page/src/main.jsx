/**
 * A page as people make them with CopilotKit: a provider that knows an address, and a chat. What else is on it, a test
 * says in the address.
 */
import "@copilotkit/react-core/v2/styles.css";
import "./style.css";

import { CopilotKit } from "@copilotkit/react-core";
import { CopilotKitProvider } from "@copilotkit/react-core/v2";
import { createRoot } from "react-dom/client";

import { agent, has, properties, server, single, thread, v1 } from "./asked.js";
import { Chat } from "./chat.jsx";
import { Questions, QuestionsOfV1 } from "./interrupts.jsx";
import { Threads } from "./threads.jsx";
import { tellOf } from "./told.jsx";
import { Approval, ApprovalOfV1, Notice, NoticeOfV1 } from "./tools.jsx";

const runtime = {
  runtimeUrl: `${server}/copilotkit`,
  properties,
  enableInspector: false,
  ...(single && { useSingleEndpoint: true }),
};

const Page = () => (
  <CopilotKitProvider {...runtime} onError={tellOf}>
    {has("questions") && <Questions agentId={agent} />}
    {has("notice") && <Notice />}
    {has("approval") && <Approval />}
    {has("threads") ? <Threads agentId={agent} /> : <Chat agentId={agent} threadId={thread} />}
  </CopilotKitProvider>
);

/** The first version's provider is told of the agent and the thread, and hands errors to chats only. */
const PageOfV1 = () => (
  <CopilotKit {...runtime} agent={agent} threadId={thread} showDevConsole={false}>
    {has("questions") && <QuestionsOfV1 />}
    {has("notice") && <NoticeOfV1 />}
    {has("approval") && <ApprovalOfV1 />}
    <Chat onError={tellOf} />
  </CopilotKit>
);

createRoot(document.getElementById("root")).render(v1 ? <PageOfV1 /> : <Page />);
