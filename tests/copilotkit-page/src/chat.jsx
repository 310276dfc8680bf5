import { CopilotChat } from "@copilotkit/react-core/v2";

import { Probe } from "./probe.jsx";

export const Chat = (props) => (
  <main>
    <CopilotChat {...props} />
    <Probe agentId={props.agentId} />
  </main>
);
