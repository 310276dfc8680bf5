/** One server-sent event: its data, and its id if it has one. */
export interface Frame {
  readonly id?: string | undefined;
  readonly data: string;
}

/**
 * Splits bytes into frames, as Threadwire sends them: lines end with LF, and a frame with an empty line.
 *
 * Bytes after the last empty line are an incomplete frame. If the connection drops there, the reader never returns it;
 * the server sends it again after the last id.
 */
export class FrameReader {
  private readonly decoder = new TextDecoder();
  private text = "";
  private searched = 0;

  push(bytes: Uint8Array): Frame[] {
    this.text += this.decoder.decode(bytes, { stream: true });
    const frames: Frame[] = [];
    let start = 0;
    for (;;) {
      const end = this.text.indexOf("\n\n", Math.max(start, this.searched));
      if (end < 0) break;
      const frame = readFrame(this.text.slice(start, end));
      if (frame) frames.push(frame);
      this.searched = start = end + 2;
    }
    this.text = this.text.slice(start);
    this.searched = Math.max(0, this.text.length - 1);
    return frames;
  }
}

/** Return `undefined` for a block that contains only comments. */
function readFrame(block: string): Frame | undefined {
  const data: string[] = [];
  let id: string | undefined;
  for (const line of block.split("\n")) {
    if (line.startsWith("data:")) data.push(fieldValue(line, "data:"));
    else if (line.startsWith("id:")) id = fieldValue(line, "id:");
  }
  return data.length === 0 ? undefined : { id, data: data.join("\n") };
}

function fieldValue(line: string, field: string): string {
  const text = line.slice(field.length);
  return text.startsWith(" ") ? text.slice(1) : text;
}

export function writeFrame({ id, data }: Frame): string {
  const lines = data.split("\n").map((line) => `data: ${line}\n`);
  return `${lines.join("")}${id === undefined ? "" : `id: ${id}\n`}\n`;
}
