/** Exposes the agent and its errors to tests, as `window.agent` and `window.errors`. */
import { useAgent, useCopilotKit } from "@copilotkit/react-core/v2";

window.errors = [];

/** For `onError`. @param {{ code: string, error: Error }} event */
export const recordError = ({ code, error }) => void window.errors.push({ code, message: error.message });

export function Probe({ agentId }) {
  const { agent, isReady } = useAgent({ agentId });
  const { copilotkit } = useCopilotKit();
  if (isReady) window.agent = agent; // until then it is a placeholder that will be replaced, with its state
  return (
    <footer>
      <button type="button" onClick={() => copilotkit.connectAgent({ agent })}>
        Reconnect
      </button>
    </footer>
  );
}
