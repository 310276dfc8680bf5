import { useInterruptSubmission, type WidgetProps } from "@threadwire/react";
import type { InterruptBlock, Json, JsonObject } from "@threadwire/timeline";
import type { FormEvent, ReactNode } from "react";

import { useDraft } from "./draft";
import { Review } from "./review";
import { answerOf, type Fields, formOf, initialFields, SchemaFields } from "./schema-form";

/** A question of any kind: a form for its schema, the review of tool calls, a breakpoint, or anything else as JSON. */
export function Question(props: WidgetProps) {
  const block = props.block as InterruptBlock;
  const question = block.value as JsonObject;
  if (block.breakpoint) return <Breakpoint block={block} />;
  if (question !== null && typeof question === "object" && "action_requests" in question) {
    return <Review {...props} block={block} />;
  }
  return <FormQuestion block={block} frozen={props.value as JsonObject} readOnly={props.readOnly} />;
}

const APPROVED = "approved";
const HIDDEN = ["type", "question", "claim_id", "metadata", "entered"];

function FormQuestion({ block, frozen, readOnly }: { block: InterruptBlock; frozen: JsonObject; readOnly: boolean }) {
  const { submit } = useInterruptSubmission();
  const form = formOf((block.responseSchema ?? {}) as JsonObject);
  const [draft, setDraft, discard] = useDraft<Fields>(block.id, initialFields(form));
  const entered = readOnly && frozen.entered ? (frozen.entered as Fields) : draft;
  const hasVerdict = form.fields.some(({ name, schema }) => name === APPROVED && schema.type === "boolean");
  const question = (block.value ?? {}) as JsonObject;
  const answer = async (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const { submitter } = event.nativeEvent as SubmitEvent;
    const verdict: Fields = hasVerdict ? { [APPROVED]: (submitter as HTMLButtonElement | null)?.value === "yes" } : {};
    const filled = { ...entered, ...verdict };
    if (await submit(answerOf(form, filled), { ...question, entered: filled })) discard();
  };
  return (
    <QuestionCard block={block} title={String(question.question ?? "A question")}>
      <form onSubmit={(event) => void answer(event)}>
        <fieldset disabled={readOnly}>
          <Details facts={question} />
          <SchemaFields
            form={form}
            entered={entered}
            change={setDraft}
            isShown={(name) => !(hasVerdict && name === APPROVED) && !(readOnly && isEmpty(entered[name]))}
          />
          <div className="actions">
            {hasVerdict ? (
              <>
                <button className="button primary" value="yes">
                  Approve
                </button>
                <button className="button" value="no">
                  Reject
                </button>
              </>
            ) : (
              <button className="button primary">Answer</button>
            )}
          </div>
        </fieldset>
      </form>
    </QuestionCard>
  );
}

function Breakpoint({ block }: { block: InterruptBlock }) {
  const { submit, readOnly } = useInterruptSubmission();
  const { next } = block.value as { next?: string[] };
  return (
    <QuestionCard block={block} title={`Paused before ${next?.join(", ") ?? "the next step"}`}>
      <div className="actions">
        <button type="button" className="button primary" disabled={readOnly} onClick={() => void submit(null)}>
          Continue
        </button>
      </div>
    </QuestionCard>
  );
}

const OUTCOMES: Record<NonNullable<InterruptBlock["outcome"]>, string> = {
  answered: "Answered",
  "answered-elsewhere": "Answered on another device",
  abandoned: "No longer needed",
  cancelled: "Cancelled",
};

/** The frame of a question: what is asked, and the outcome. */
export function QuestionCard({ block, title, children }: { block: InterruptBlock; title: string; children: ReactNode }) {
  const { error } = useInterruptSubmission();
  const state = block.phase === "submitting" ? "Sending…" : block.outcome ? OUTCOMES[block.outcome] : "Needs your answer";
  return (
    <section className="card question" data-phase={block.phase} data-outcome={block.outcome} aria-label={title}>
      <header>
        <h3>{title}</h3>
        <p className="badge">
          {state}
          {block.respondedAt ? <time> · {timeOf(block.respondedAt)}</time> : null}
        </p>
      </header>
      {children}
      {block.response !== undefined && <Verdict response={block.response} />}
      {error && (
        <p className="problem" role="alert">
          Not sent: {error}
        </p>
      )}
    </section>
  );
}

function Verdict({ response }: { response: Json }) {
  return (
    <p className="verdict">
      <b>Decision</b> {decision(response)}
    </p>
  );
}

function decision(response: Json): string {
  if (typeof response !== "object" || response === null || Array.isArray(response)) return String(response);
  if (Array.isArray(response.decisions)) {
    return response.decisions.map((each) => String((each as JsonObject).type)).join(", ");
  }
  const { approved, ...rest } = response;
  const verdict = approved === undefined ? [] : [approved ? "approved" : "rejected"];
  const others = Object.values(rest).filter((value) => value !== null && value !== "");
  return [...verdict, ...others.map(String)].join(", ");
}

/** The facts that are not part of the question itself. */
function Details({ facts }: { facts: JsonObject }) {
  const question = String(facts.question);
  const isAmount = (value: Json) => typeof value === "number" && question.includes(value.toFixed(2));
  const isRepeated = (value: Json) => isAmount(value) || question.includes(String(value));
  const isShown = ([key, value]: [string, Json]) => !HIDDEN.includes(key) && !isRepeated(value);
  const shown = Object.entries(facts).filter(isShown);
  if (shown.length === 0) return null;
  return (
    <dl>
      {shown.map(([key, value]) => (
        <div key={key}>
          <dt>{key.replaceAll("_", " ")}</dt>
          <dd>{typeof value === "number" ? value.toLocaleString("en") : String(value)}</dd>
        </div>
      ))}
    </dl>
  );
}

function isEmpty(value: Json | undefined): boolean {
  return value === undefined || value === null || value === "";
}

function timeOf(milliseconds: number): string {
  return new Date(milliseconds).toLocaleTimeString("en", { hour: "2-digit", minute: "2-digit" });
}
