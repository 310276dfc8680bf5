/** Questions that take the place of the composer. */
import { type FormEvent, useState } from "react";

import type { InputAnswer, StructuredInputItem, StructuredQuestion } from "./wire";

interface Props {
  item: StructuredInputItem;
  /** Null skips all questions. */
  onAnswer: (answers: Record<string, InputAnswer> | null) => void;
}

export function StructuredInput({ item, onAnswer }: Props) {
  const [isComplete, setComplete] = useState(false);
  const check = (form: HTMLFormElement) => setComplete(Object.values(answersOf(item, form)).some(({ skipped }) => !skipped));
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    onAnswer(answersOf(item, event.currentTarget));
  };
  return (
    <form className="structured" aria-label="Question" onSubmit={submit} onInput={({ currentTarget }) => check(currentTarget)}>
      {item.inputs.map((question, at) => (
        <QuestionView key={question.id} question={question} isFirst={at === 0} />
      ))}
      <div className="buttons">
        <button type="button" onClick={() => onAnswer(null)}>
          Skip
        </button>
        <button type="submit" className="primary" disabled={!isComplete}>
          Answer
        </button>
      </div>
    </form>
  );
}

function QuestionView({ question, isFirst }: { question: StructuredQuestion; isFirst: boolean }) {
  if (question.type === "freeform") {
    return (
      <label className="question">
        {question.question}
        {question.description && <small>{question.description}</small>}
        <input name={question.id} autoComplete="off" autoFocus={isFirst} />
      </label>
    );
  }
  return (
    <fieldset className="question">
      <legend>{question.question}</legend>
      {question.options.map(({ value }, at) => (
        <label key={value} className="choice">
          <input
            type={question.multiple ? "checkbox" : "radio"}
            name={question.id}
            value={value}
            autoFocus={isFirst && at === 0}
          />
          {value}
        </label>
      ))}
    </fieldset>
  );
}

function answersOf(item: StructuredInputItem, form: HTMLFormElement): Record<string, InputAnswer> {
  const sent = new FormData(form);
  return Object.fromEntries(
    item.inputs.map(({ id }) => {
      const values = sent.getAll(id).map(String).filter((each) => each.trim());
      return [id, { values, skipped: values.length === 0 }];
    }),
  );
}
