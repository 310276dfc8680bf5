import { CopilotChat } from "@copilotkit/react-core/v2";

import { Told } from "./told.jsx";

export const Chat = (props) => (
  <main>
    <CopilotChat {...props} />
    <Told agentId={props.agentId} />
  </main>
);
