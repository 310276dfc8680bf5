import type { WidgetProps } from "@threadwire/react";

/** The progress of a job. The graph merges new figures into it, and removes it when the job is done. */
export function Progress({ value }: WidgetProps) {
  const { title, done, of, last } = value as { title?: string; done: number; of: number; last?: string };
  return (
    <section className="card progress" aria-label={title}>
      <h3>{title}</h3>
      <progress value={done} max={of} aria-label={title} />
      <p>
        {done} of {of} sources{last ? `, last: ${last}` : ""}
      </p>
    </section>
  );
}

export function BarChart({ value }: WidgetProps) {
  const { title, bars } = value as { title: string; bars: Record<string, number> };
  const sorted = Object.entries(bars).sort(([, left], [, right]) => right - left);
  return (
    <figure className="card chart" aria-label={title}>
      <figcaption>{title}</figcaption>
      <table>
        <tbody>
          {sorted.map(([name, size]) => (
            <tr key={name}>
              <th scope="row">{name}</th>
              <td>
                <span className="bar" style={{ width: `${size}%` }} />
              </td>
              <td className="size">{size}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </figure>
  );
}
