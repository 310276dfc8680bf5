/** A form generated from the JSON Schema that an interrupt's answer has to satisfy. */
import type { Json, JsonObject } from "@threadwire/timeline";

export type Fields = Record<string, Json>;

export interface FormSchema {
  fields: { name: string; label: string; schema: JsonObject; isRequired: boolean }[];
  /** Whether the answer is an object of the fields; otherwise it is the value of the only field. */
  isObject: boolean;
}

const ONLY = "answer";

/** The fields of a schema: those of an object, or a single one for any other type. */
export function formOf(schema: JsonObject): FormSchema {
  const properties = schema.properties as Record<string, JsonObject> | undefined;
  if (!properties) {
    return { fields: [{ name: ONLY, label: "Answer", schema, isRequired: true }], isObject: false };
  }
  const required = (schema.required ?? []) as string[];
  const fields = Object.entries(properties).map(([name, property]) => ({
    name,
    label: (property.title as string | undefined) ?? name,
    schema: property,
    isRequired: required.includes(name),
  }));
  return { fields, isObject: true };
}

/** What a form starts with. */
export function initialFields({ fields }: FormSchema): Fields {
  return Object.fromEntries(fields.map(({ name, schema }) => [name, schema.default ?? ""]));
}

/** The answer that the graph receives. A field that was left empty has its default. */
export function answerOf({ fields, isObject }: FormSchema, entered: Fields): Json {
  const answers = fields.map(({ name, schema }): [string, Json] => {
    const value = entered[name] ?? "";
    if (value === "" && !isText(schema)) return [name, schema.default ?? null];
    return [name, isNumber(schema) ? Number(value) : value];
  });
  return isObject ? Object.fromEntries(answers) : (answers[0]?.[1] ?? null);
}

interface Props {
  form: FormSchema;
  entered: Fields;
  change: (entered: Fields) => void;
  isShown: (name: string) => boolean;
}

export function SchemaFields({ form, entered, change, isShown }: Props) {
  const shown = form.fields.filter(({ name }) => isShown(name));
  if (shown.length === 0) return null;
  return (
    <div className="fields">
      {shown
        .map(({ name, label, schema, isRequired }) => {
          const value = entered[name] ?? "";
          const set = (next: Json) => change({ ...entered, [name]: next });
          const choices = (schema.enum as string[] | undefined) ?? (schema.type === "boolean" ? ["Yes", "No"] : undefined);
          if (choices) {
            return (
              <fieldset key={name} className="choices">
                <legend>{label}</legend>
                {choices.map((choice) => {
                  const answer = schema.type === "boolean" ? choice === "Yes" : choice;
                  return (
                    <label key={choice}>
                      <input type="radio" checked={value === answer} onChange={() => set(answer)} required={isRequired} />
                      {choice}
                    </label>
                  );
                })}
              </fieldset>
            );
          }
          return (
            <label key={name} className="field">
              <span>
                {label} {!isRequired && <small>optional</small>}
              </span>
              <input
                type={isNumber(schema) ? "number" : "text"}
                step="any"
                min={minimum(schema)}
                required={isRequired}
                value={value === null ? "" : String(value)}
                onChange={(event) => set(event.target.value)}
              />
              {typeof schema.description === "string" && <small>{schema.description}</small>}
            </label>
          );
        })}
    </div>
  );
}

/** The schema itself, and its alternatives (`anyOf`). */
function alternatives(schema: JsonObject): JsonObject[] {
  return [schema, ...((schema.anyOf ?? []) as JsonObject[])];
}

function isNumber(schema: JsonObject): boolean {
  return alternatives(schema).some(({ type }) => type === "number" || type === "integer");
}

function isText(schema: JsonObject): boolean {
  return alternatives(schema).some(({ type }) => type === "string");
}

function minimum(schema: JsonObject): number | undefined {
  return alternatives(schema).find((each) => each.minimum !== undefined)?.minimum as number | undefined;
}
