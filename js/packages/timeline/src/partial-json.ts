/**
 * Incomplete JSON, such as the arguments of a tool call while they stream.
 *
 * Returns what LangChain's `parse_partial_json` returns (spec/timeline.md, 4.13).
 */
import { type Json, parsed } from "./json.js";

const CLOSING: Record<string, string> = { "{": "}", "[": "]" };

/** Parse the longest prefix of the text that is JSON once it is closed. Returns undefined if there is none. */
export function parsePartialJson(text: string): Json | undefined {
  const whole = parsed(text);
  if (whole !== undefined) return whole;
  const closed = close(text);
  if (closed === undefined) return undefined;
  const [characters, closing] = closed;
  for (; characters.length > 0; characters.pop()) {
    const value = parsed(characters.join("") + closing);
    if (value !== undefined) return value;
  }
  return undefined;
}

/** The characters, with an open string closed, and the closing brackets; undefined if brackets do not match. */
function close(text: string): [string[], string] | undefined {
  const characters: string[] = [];
  const brackets: string[] = [];
  let inText = false;
  let escaped = false;
  for (const character of text) {
    let shown = character;
    if (inText) {
      if (character === '"' && !escaped) inText = false;
      else {
        // Python's parser accepts control characters in a string, JavaScript's does not.
        if (character < " " && !escaped) shown = JSON.stringify(character).slice(1, -1);
        escaped = character === "\\" && !escaped;
      }
    } else if (character === '"') {
      inText = true;
      escaped = false;
    } else if (CLOSING[character]) brackets.unshift(CLOSING[character]);
    else if ((character === "}" || character === "]") && brackets.shift() !== character) return undefined;
    characters.push(shown);
  }
  if (inText) {
    if (escaped) characters.pop();
    characters.push('"');
  }
  return [characters, brackets.join("")];
}
