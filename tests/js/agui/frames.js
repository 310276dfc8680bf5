/**
 * Parses server-sent events more strictly than any client: clients tolerate many errors, and not all the same ones.
 */

/** @typedef {{ id?: string, event: any }} Frame */

const FIELD = /^(data|id): (.*)$/s;

/**
 * @param {Uint8Array} bytes a complete stream
 * @returns {{ frames: Frame[], problems: string[] }}
 */
export function readFrames(bytes) {
  /** @type {string[]} */
  const problems = [];
  const text = decode(bytes, problems);
  if (text.includes("\r")) problems.push("framing: a carriage return, which breaks every client's parser");
  if (text !== "" && !text.endsWith("\n\n")) problems.push("framing: the last frame does not end with an empty line");
  const frames = text
    .split("\n\n")
    .filter((block) => block !== "")
    .flatMap((block, index) => readFrame(block, (problem) => problems.push(`framing: block ${index}: ${problem}`)));
  return { frames, problems };
}

/**
 * @param {Uint8Array} bytes
 * @param {string[]} problems
 */
function decode(bytes, problems) {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    problems.push("framing: not UTF-8");
    return new TextDecoder().decode(bytes);
  }
}

/**
 * @param {string} block
 * @param {(problem: string) => void} report
 * @returns {Frame[]} one, or none for a comment
 */
function readFrame(block, report) {
  const lines = block.split("\n").filter((line) => !line.startsWith(":"));
  if (lines.length === 0) return [];
  /** @type {Record<string, string[]>} */
  const fields = { data: [], id: [] };
  for (const line of lines) {
    const match = FIELD.exec(line);
    if (match) fields[match[1]].push(match[2]);
    else report(`a line that is neither data, id nor a comment: ${JSON.stringify(line)}`);
  }
  if (fields.data.length !== 1) report(`${fields.data.length} data lines`);
  if (fields.id.length > 1) report(`${fields.id.length} id lines`);
  if (fields.id.some((id) => !/^\d+$/.test(id))) report(`an id that is not a number: ${JSON.stringify(fields.id)}`);
  try {
    const event = JSON.parse(fields.data.join("\n"));
    if (typeof event?.type === "string") return [{ id: fields.id[0], event }];
    report(`an event without a type: ${fields.data}`);
  } catch (error) {
    report(`data that is not JSON: ${error instanceof Error ? error.message : error}`);
  }
  return [];
}

/**
 * Ids must increase: a client resumes after the last one.
 *
 * @param {Frame[]} frames
 */
export function idProblems(frames) {
  const ids = frames.flatMap(({ id }) => (id === undefined ? [] : [Number(id)]));
  return ids.flatMap((id, index) =>
    index > 0 && id <= ids[index - 1] ? [`ids: ${id} comes after ${ids[index - 1]}`] : [],
  );
}
