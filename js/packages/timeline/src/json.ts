/** JSON values, compared and written as the specification requires. */

export type Json = null | boolean | number | string | Json[] | JsonObject;

export interface JsonObject {
  [key: string]: Json;
}

export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The object, or an empty one if the value is anything else. */
export function objectOf(value: unknown): JsonObject {
  return isObject(value) ? value : {};
}

/** The array, or an empty one if the value is anything else. */
export function listOf(value: unknown): Json[] {
  return Array.isArray(value) ? value : [];
}

/** The array, or one that contains only the value. */
export function asList(value: Json): Json[] {
  return Array.isArray(value) ? value : [value];
}

/** The objects of an array. */
export function objectsIn(value: unknown): JsonObject[] {
  return listOf(value).filter(isObject);
}

/** A field of an object; unlike `object[key]`, never one that all objects inherit. */
export function fieldOf(object: JsonObject, key: string): Json | undefined {
  return Object.hasOwn(object, key) ? object[key] : undefined;
}

/** The object without some of its keys. */
export function without(object: JsonObject, ...keys: string[]): JsonObject {
  return Object.fromEntries(Object.entries(object).filter(([key]) => !keys.includes(key)));
}

/** The value of a JSON text; null for none, and undefined for a text that is not JSON. */
export function parsed(text: string | null | undefined): Json | undefined {
  try {
    return JSON.parse(text ?? "null") as Json;
  } catch {
    return undefined;
  }
}

export function sameJson(left: unknown, right: unknown): boolean {
  if (left === right) return true;
  if (Array.isArray(left)) {
    return Array.isArray(right) && left.length === right.length && left.every((each, at) => sameJson(each, right[at]));
  }
  if (!isObject(left) || !isObject(right)) return false;
  const keys = Object.keys(left);
  return (
    keys.length === Object.keys(right).length &&
    keys.every((key) => Object.hasOwn(right, key) && sameJson(left[key], right[key]))
  );
}

/** Canonical JSON (RFC 8785). JavaScript compares strings and writes numbers as the RFC does. */
export function canonical(value: Json): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (!isObject(value)) return JSON.stringify(value);
  const keys = Object.keys(value).sort();
  return `{${keys.map((key) => `${JSON.stringify(key)}:${canonical(value[key]!)}`).join(",")}}`;
}

/** The 64-bit FNV-1a hash of the text's UTF-8 bytes, as 16 hexadecimal digits. */
export function fnv1a64(text: string): string {
  let digest = 0xcbf29ce484222325n;
  for (const byte of new TextEncoder().encode(text)) {
    digest = BigInt.asUintN(64, (digest ^ BigInt(byte)) * 0x100000001b3n);
  }
  return digest.toString(16).padStart(16, "0");
}
