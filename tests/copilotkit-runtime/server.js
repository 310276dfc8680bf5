/**
 * Serves CopilotKit's own runtime with a toy agent, on a free port, and prints the URL.
 *
 * The last message selects what the agent does: `hello` gets a reply, `slow` streams until it is stopped, `fail` fails.
 */
import { createServer } from "node:http";

import { AbstractAgent } from "@ag-ui/client";
import { CopilotRuntime } from "@copilotkit/runtime/v2";
import { createCopilotNodeListener } from "@copilotkit/runtime/v2/node";
import { Observable } from "rxjs";

process.env["COPILOTKIT_TELEMETRY_DISABLED"] = "true";

class ToyAgent extends AbstractAgent {
  /** @param {any} input */
  run(input) {
    return new Observable((events) => {
      this.stopped = false;
      this.emit(input, events).catch((error) => events.error(error));
    });
  }

  /** @param {any} input @param {any} events */
  async emit({ threadId, runId, messages }, events) {
    const message = messages.at(-1)?.content;
    events.next({ type: "RUN_STARTED", threadId, runId });
    events.next({ type: "STATE_SNAPSHOT", snapshot: { asked: message } });
    const messageId = `answer-${runId}`;
    events.next({ type: "TEXT_MESSAGE_START", messageId, role: "assistant" });
    for (let word = 0; message === "slow" ? !this.stopped : word < 3; word++) {
      events.next({ type: "TEXT_MESSAGE_CONTENT", messageId, delta: `w${word} ` });
      await new Promise((resolve) => setTimeout(resolve, 10));
      if (message === "fail") throw new Error("It broke.");
    }
    events.next({ type: "TEXT_MESSAGE_END", messageId });
    events.next({ type: "RUN_FINISHED", threadId, runId });
    events.complete();
  }

  abortRun() {
    this.stopped = true;
  }

  clone() {
    return new ToyAgent({ agentId: this.agentId, description: this.description });
  }
}

const runtime = new CopilotRuntime({ agents: { default: new ToyAgent({ description: "toy" }) } });
const routes = createCopilotNodeListener({ runtime, basePath: "/copilotkit" });
const envelope = createCopilotNodeListener({ runtime, basePath: "/copilotkit", mode: "single-route" });
// A listener supports one transport. Our server supports both at one URL, and so does this one.
const server = createServer((request, response) =>
  (/^\/copilotkit\/?$/.test(request.url ?? "") ? envelope : routes)(request, response),
);
server.listen(0, "127.0.0.1", () => {
  console.log(`Listening on http://127.0.0.1:${/** @type {any} */ (server.address()).port}`);
});
