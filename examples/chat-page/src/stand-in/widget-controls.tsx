/** The inputs of widgets. They are uncontrolled: a form reads its values when it is sent. */
import type { Widgets } from "@openai/chatkit";
import { type ChangeEvent, use } from "react";

import { ActionContext, fieldIds } from "./widget-context";
import type { ActionConfig } from "./wire";

interface Field {
  name: string;
  disabled?: boolean;
}

/** An input is named by its `Label`, if there is one, otherwise by its name. */
function useName({ name, disabled }: Field, placeholder?: string) {
  const { field, label } = fieldIds(use(ActionContext), name);
  return { id: field, name, disabled, "aria-labelledby": label, "aria-label": placeholder ?? name };
}

function useChangeAction(action: ActionConfig | undefined) {
  const { run } = use(ActionContext);
  return ({ currentTarget }: ChangeEvent<HTMLInputElement | HTMLSelectElement>) => {
    if (!action) return;
    const value = currentTarget instanceof HTMLInputElement && currentTarget.type === "checkbox" ? currentTarget.checked : currentTarget.value;
    run({ ...action, payload: { [currentTarget.name]: value, ...action.payload } }, currentTarget.form);
  };
}

export function Input({ node }: { node: Widgets.Input }) {
  return (
    <input
      {...useName(node, node.placeholder)}
      type={node.inputType ?? "text"}
      step={node.inputType === "number" ? "any" : undefined}
      defaultValue={node.defaultValue}
      placeholder={node.placeholder}
      required={node.required}
      pattern={node.pattern}
      autoFocus={node.autoFocus}
      autoComplete="off"
    />
  );
}

export function Textarea({ node }: { node: Widgets.Textarea }) {
  return (
    <textarea
      {...useName(node, node.placeholder)}
      rows={node.rows ?? 2}
      defaultValue={node.defaultValue}
      placeholder={node.placeholder}
      required={node.required}
      autoFocus={node.autoFocus}
    />
  );
}

export function Select({ node }: { node: Widgets.Select }) {
  const change = useChangeAction(node.onChangeAction);
  return (
    <select {...useName(node, node.placeholder)} defaultValue={node.defaultValue ?? ""} onChange={change}>
      {(node.clearable || node.defaultValue === undefined) && <option value="">{node.placeholder ?? "Choose…"}</option>}
      {node.options.map(({ value, label }) => (
        <option key={value} value={value}>
          {label}
        </option>
      ))}
    </select>
  );
}

export function DatePicker({ node }: { node: Widgets.DatePicker }) {
  const change = useChangeAction(node.onChangeAction);
  const day = (text: string | undefined) => text?.slice(0, 10);
  return (
    <input
      {...useName(node, node.placeholder)}
      type="date"
      defaultValue={day(node.defaultValue)}
      min={day(node.min)}
      max={day(node.max)}
      onChange={change}
    />
  );
}

export function Checkbox({ node }: { node: Widgets.Checkbox }) {
  const change = useChangeAction(node.onChangeAction);
  return (
    <label className="choice">
      <input
        type="checkbox"
        name={node.name}
        defaultChecked={node.defaultChecked}
        disabled={node.disabled}
        required={node.required}
        onChange={change}
      />
      {node.label ?? node.name}
    </label>
  );
}

export function RadioGroup({ node }: { node: Widgets.RadioGroup }) {
  const change = useChangeAction(node.onChangeAction);
  return (
    <div className="group" role="radiogroup" aria-label={node.ariaLabel ?? node.name} data-direction={node.direction ?? "col"}>
      {node.options?.map(({ value, label, disabled }) => (
        <label key={value} className="choice">
          <input
            type="radio"
            name={node.name}
            value={value}
            defaultChecked={value === node.defaultValue}
            disabled={disabled ?? node.disabled}
            required={node.required}
            onChange={change}
          />
          {label}
        </label>
      ))}
    </div>
  );
}
