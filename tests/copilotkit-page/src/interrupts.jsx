/** The interrupts of a graph. Each is a `[data-interrupt]`, whose value says how the page received it. */
import { useLangGraphInterrupt } from "@copilotkit/react-core";
import { useInterrupt } from "@copilotkit/react-core/v2";

export function Interrupts({ agentId }) {
  useInterrupt({
    agentId,
    render: ({ event, interrupts, resolve, cancel }) => (
      <section>
        {interrupts.map(({ id, metadata }) => (
          <Interrupt
            key={id}
            source="outcome"
            value={metadata.value}
            answer={(choice) => resolve(choice, id)}
            dismiss={() => cancel(id)}
          />
        ))}
        {interrupts.length === 0 && <Interrupt source="event" value={JSON.parse(event.value)} answer={resolve} />}
      </section>
    ),
  });
  return null;
}

/** The v1 hook passes either an interrupt or its bare value, depending on how the page received it. */
export function InterruptsV1() {
  useLangGraphInterrupt({
    render: ({ event: { value }, resolve }) =>
      value.metadata ? (
        <Interrupt source="outcome" value={value.metadata.value} answer={resolve} />
      ) : (
        <Interrupt source="event" value={value} answer={resolve} />
      ),
  });
  return null;
}

function Interrupt({ source, value, answer, dismiss }) {
  return (
    <fieldset data-interrupt={source}>
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
