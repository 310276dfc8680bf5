/** One server-sent event: its data, and its id if it has one. */
export interface Frame {
  readonly id?: string | undefined;
  readonly data: string;
}

/**
 * Cuts bytes into frames, as Threadwire sends them: lines ended by LF, a frame by an empty line.
 *
 * What comes after the last empty line is no frame yet. If the connection drops there, it never becomes one, and is
 * sent again after the last id.
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

/** Nothing for a block of comments alone. */
function readFrame(block: string): Frame | undefined {
  const data: string[] = [];
  let id: string | undefined;
  for (const line of block.split("\n")) {
    if (line.startsWith("data:")) data.push(value(line, "data:"));
    else if (line.startsWith("id:")) id = value(line, "id:");
  }
  return data.length === 0 ? undefined : { id, data: data.join("\n") };
}

function value(line: string, field: string): string {
  const text = line.slice(field.length);
  return text.startsWith(" ") ? text.slice(1) : text;
}

export function writeFrame({ id, data }: Frame): string {
  const lines = data.split("\n").map((line) => `data: ${line}\n`);
  return `${lines.join("")}${id === undefined ? "" : `id: ${id}\n`}\n`;
}
