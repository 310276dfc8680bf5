/**
 * CopilotKit's own runtime with a toy agent, on a port of its choosing, which it prints.
 *
 * The agent does what it is told: `hello` is answered, `slow` goes on until it is stopped, `fail` breaks off.
 */
import { createServer } from "node:http";

import { AbstractAgent } from "@ag-ui/client";
import { CopilotRuntime } from "@copilotkit/runtime/v2";
import { createCopilotNodeListener } from "@copilotkit/runtime/v2/node";
import { Observable } from "rxjs";

process.env["COPILOTKIT_TELEMETRY_DISABLED"] = "true";

class Toy extends AbstractAgent {
  /** @param {any} input */
  run(input) {
    return new Observable((events) => {
      this.stopped = false;
      this.tell(input, events).catch((error) => events.error(error));
    });
  }

  /** @param {any} input @param {any} events */
  async tell({ threadId, runId, messages }, events) {
    const asked = messages.at(-1)?.content;
    events.next({ type: "RUN_STARTED", threadId, runId });
    events.next({ type: "STATE_SNAPSHOT", snapshot: { asked } });
    const messageId = `answer-${runId}`;
    events.next({ type: "TEXT_MESSAGE_START", messageId, role: "assistant" });
    for (let word = 0; asked === "slow" ? !this.stopped : word < 3; word++) {
      events.next({ type: "TEXT_MESSAGE_CONTENT", messageId, delta: `w${word} ` });
      await new Promise((resolve) => setTimeout(resolve, 10));
      if (asked === "fail") throw new Error("It broke.");
    }
    events.next({ type: "TEXT_MESSAGE_END", messageId });
    events.next({ type: "RUN_FINISHED", threadId, runId });
    events.complete();
  }

  abortRun() {
    this.stopped = true;
  }

  clone() {
    return new Toy({ agentId: this.agentId, description: this.description });
  }
}

const runtime = new CopilotRuntime({ agents: { default: new Toy({ description: "toy" }) } });
const routes = createCopilotNodeListener({ runtime, basePath: "/copilotkit" });
const envelope = createCopilotNodeListener({ runtime, basePath: "/copilotkit", mode: "single-route" });
// It has one transport or the other. Ours has both at one address, and so has this.
const server = createServer((request, response) =>
  (/^\/copilotkit\/?$/.test(request.url ?? "") ? envelope : routes)(request, response),
);
server.listen(0, "127.0.0.1", () => {
  console.log(`Listening on http://127.0.0.1:${/** @type {any} */ (server.address()).port}`);
});
