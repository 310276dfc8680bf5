/** The inputs of a form as the payload of an action. */
import type { ActionConfig } from "./wire";

type Values = Record<string, unknown>;

/** An action with the values of its form. A key that the payload already has wins, as in ChatKit. */
export function actionWith(action: ActionConfig, form: HTMLFormElement | null): ActionConfig {
  return form ? { ...action, payload: merged(valuesOf(form), action.payload ?? {}) } : action;
}

/** The values by the names of their inputs. The name `a.b` is the key `b` of the object `a`. */
export function valuesOf(form: HTMLFormElement): Values {
  const values: Values = {};
  for (const field of form.elements) {
    if (field instanceof HTMLInputElement && field.type === "checkbox") put(values, field.name, field.checked);
    else if (field instanceof HTMLInputElement && field.type === "radio" && !field.checked) continue;
    else if (isField(field) && field.name) put(values, field.name, field.value);
  }
  return values;
}

const isField = (field: Element): field is HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement =>
  field instanceof HTMLInputElement || field instanceof HTMLSelectElement || field instanceof HTMLTextAreaElement;

function put(values: Values, name: string, value: unknown): void {
  const keys = name.split(".");
  const last = keys.pop() ?? name;
  let target = values;
  for (const key of keys) target = (target[key] ??= {}) as Values;
  target[last] = value;
}

function merged(values: Values, preset: Values): Values {
  const result = { ...values };
  for (const [key, value] of Object.entries(preset)) {
    const below = result[key];
    result[key] = isObject(below) && isObject(value) ? merged(below, value) : value;
  }
  return result;
}

const isObject = (value: unknown): value is Values => typeof value === "object" && value !== null && !Array.isArray(value);
