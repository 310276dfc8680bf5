/** The questions of a graph: each is one `[data-question]`, which says in which way the page was told of it. */
import { useLangGraphInterrupt } from "@copilotkit/react-core";
import { useInterrupt } from "@copilotkit/react-core/v2";

export function Questions({ agentId }) {
  useInterrupt({
    agentId,
    render: ({ event, interrupts, resolve, cancel }) => (
      <section>
        {interrupts.map(({ id, metadata }) => (
          <Question
            key={id}
            told="outcome"
            value={metadata.value}
            answer={(choice) => resolve(choice, id)}
            dismiss={() => cancel(id)}
          />
        ))}
        {interrupts.length === 0 && <Question told="event" value={JSON.parse(event.value)} answer={resolve} />}
      </section>
    ),
  });
  return null;
}

/** It is given an interrupt, or what a graph asked, whichever way the page was told. */
export function QuestionsOfV1() {
  useLangGraphInterrupt({
    render: ({ event: { value }, resolve }) =>
      value.metadata ? (
        <Question told="outcome" value={value.metadata.value} answer={resolve} />
      ) : (
        <Question told="event" value={value} answer={resolve} />
      ),
  });
  return null;
}

function Question({ told, value, answer, dismiss }) {
  return (
    <fieldset data-question={told}>
      <legend>{value.question}</legend>
      {value.choices.map((choice) => (
        <button key={choice} type="button" onClick={() => answer(choice)}>
          {choice}
        </button>
      ))}
      {dismiss && (
        <button type="button" onClick={dismiss}>
          dismiss
        </button>
      )}
    </fieldset>
  );
}
