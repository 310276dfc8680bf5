/** Tool calls that wait for a review, in the form of LangChain's human-in-the-loop middleware. */
import { useInterruptSubmission, type WidgetProps } from "@threadwire/react";
import type { InterruptBlock, JsonObject } from "@threadwire/timeline";

import { useDraft } from "./draft";
import { QuestionCard } from "./questions";

interface ActionRequest {
  name: string;
  args: JsonObject;
  description?: string;
}

interface Decision {
  type: "approve" | "edit" | "reject";
  /** The arguments that replace those of the call, and the reason of a rejection. */
  args: Record<string, string>;
  message: string;
}

const LABELS = { approve: "Approve", edit: "Edit", reject: "Reject" };

export function Review({ block, value, readOnly }: WidgetProps & { block: InterruptBlock }) {
  const { submit } = useInterruptSubmission();
  const { action_requests: requests, review_configs: configs } = block.value as unknown as {
    action_requests: ActionRequest[];
    review_configs: { allowed_decisions: Decision["type"][] }[];
  };
  const [draft, setDraft, discard] = useDraft<Decision[]>(block.id, requests.map(initial));
  const { entered } = value as { entered?: Decision[] };
  const decisions = readOnly && entered ? entered : draft;
  const change = (at: number, changed: Partial<Decision>) =>
    setDraft(decisions.map((each, index) => (index === at ? { ...each, ...changed } : each)));
  const answer = async () => {
    const response = { decisions: decisions.map((each, at) => answerOf(each, requests[at]!)) };
    const frozen = { ...(block.value as JsonObject), entered: decisions as unknown as JsonObject[] };
    if (await submit(response, frozen)) discard();
  };
  return (
    <QuestionCard block={block} title="Review before this is published">
      <fieldset disabled={readOnly}>
        {requests.map((request, at) => (
          <Action
            key={at}
            request={request}
            allowed={configs[at]?.allowed_decisions ?? ["approve", "reject"]}
            decision={decisions[at] ?? initial(request)}
            change={(changed) => change(at, changed)}
          />
        ))}
        <div className="actions">
          <button type="button" className="button primary" onClick={() => void answer()}>
            Send the decisions
          </button>
        </div>
      </fieldset>
    </QuestionCard>
  );
}

interface ActionProps {
  request: ActionRequest;
  allowed: Decision["type"][];
  decision: Decision;
  change: (changed: Partial<Decision>) => void;
}

function Action({ request, allowed, decision, change }: ActionProps) {
  return (
    <div className="action">
      <h4>{request.name.replaceAll("_", " ")}</h4>
      <div className="fields">
      {Object.entries(request.args).map(([name, value]) => (
        <label key={name} className="field">
          <span>{name}</span>
          {decision.type === "edit" ? (
            <input
              value={decision.args[name] ?? ""}
              onChange={(event) => change({ args: { ...decision.args, [name]: event.target.value } })}
            />
          ) : (
            <output>{String(value)}</output>
          )}
        </label>
      ))}
      </div>
      <div className="choices" role="radiogroup" aria-label={`Decision on ${request.name}`}>
        {allowed.map((type) => (
          <label key={type}>
            <input type="radio" checked={decision.type === type} onChange={() => change({ type })} />
            {LABELS[type]}
          </label>
        ))}
      </div>
      {decision.type === "reject" && (
        <label className="field">
          <span>
            Reason <small>optional</small>
          </span>
          <input value={decision.message} onChange={(event) => change({ message: event.target.value })} />
        </label>
      )}
    </div>
  );
}

function initial({ args }: ActionRequest): Decision {
  const texts = Object.entries(args).map(([name, value]) => [name, String(value)]);
  return { type: "approve", args: Object.fromEntries(texts) as Record<string, string>, message: "" };
}

function answerOf({ type, args, message }: Decision, { name }: ActionRequest): JsonObject {
  if (type === "edit") return { type, edited_action: { name, args } };
  return type === "reject" && message ? { type, message } : { type };
}
