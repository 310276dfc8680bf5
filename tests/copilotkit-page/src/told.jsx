/** What the page has been told, where tests can read it: `window.agent` and `window.errors`. */
import { useAgent, useCopilotKit } from "@copilotkit/react-core/v2";

window.errors = [];

/** For `onError`. @param {{ code: string, error: Error }} event */
export const tellOf = ({ code, error }) => void window.errors.push({ code, message: error.message });

export function Told({ agentId }) {
  const { agent, isReady } = useAgent({ agentId });
  const { copilotkit } = useCopilotKit();
  if (isReady) window.agent = agent; // before that it is one that will be replaced, with whatever it is told
  return (
    <footer>
      <button type="button" onClick={() => copilotkit.connectAgent({ agent })}>
        Connect again
      </button>
    </footer>
  );
}
