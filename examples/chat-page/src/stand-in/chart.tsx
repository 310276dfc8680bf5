/** A chart with bars, or with lines and areas. */
import type { CSSProperties } from "react";

import { themed } from "./widget-style";

interface Series {
  type: "bar" | "line" | "area";
  dataKey: string;
  label?: string;
  color?: string;
}

export interface ChartNode {
  type: "Chart";
  key?: string;
  id?: string;
  data: Record<string, string | number>[];
  series: Series[];
  xAxis: string | { dataKey: string };
  showYAxis?: boolean;
  showLegend?: boolean;
  height?: number;
}

const WIDTH = 100;
const COLORS = ["var(--accent)", "var(--success)", "var(--warning)", "var(--discovery)", "var(--danger)"];

export function Chart({ node }: { node: ChartNode }) {
  const axis = typeof node.xAxis === "string" ? node.xAxis : node.xAxis.dataKey;
  const values = node.data.flatMap((row) => node.series.map(({ dataKey }) => Number(row[dataKey]) || 0));
  const top = Math.max(...values, 1);
  const bars = node.series.filter(({ type }) => type === "bar");
  const lines = node.series.filter(({ type }) => type !== "bar");
  const summary = node.data.map((row) => `${row[axis]}: ${node.series.map(({ dataKey }) => row[dataKey]).join(", ")}`).join("; ");
  return (
    <figure className="chart" role="img" aria-label={summary} style={{ "--height": `${node.height ?? 180}px` } as CSSProperties}>
      <div className="plot">
        {lines.length > 0 && <Lines node={node} lines={lines} top={top} />}
        {node.data.map((row, at) => (
          <div key={at} className="column">
            <div className="bars">
              {bars.map((series) => (
                <span key={series.dataKey} className="bar" style={{ height: `${((Number(row[series.dataKey]) || 0) / top) * 100}%`, background: colorOf(node, series) }}>
                  {node.showYAxis !== false && <b>{row[series.dataKey]}</b>}
                </span>
              ))}
            </div>
            <span className="tick">{row[axis]}</span>
          </div>
        ))}
      </div>
      {node.showLegend !== false && (
        <figcaption>
          {node.series.map((series) => (
            <span key={series.dataKey} style={{ "--color": colorOf(node, series) } as CSSProperties}>
              {series.label ?? series.dataKey}
            </span>
          ))}
        </figcaption>
      )}
    </figure>
  );
}

function colorOf(node: ChartNode, series: Series): string {
  return themed(series.color) ?? COLORS[node.series.indexOf(series) % COLORS.length] ?? "currentColor";
}

function Lines({ node, lines, top }: { node: ChartNode; lines: Series[]; top: number }) {
  const x = (at: number) => ((at + 0.5) / node.data.length) * WIDTH;
  const y = (value: number) => WIDTH - (value / top) * WIDTH;
  return (
    <svg className="lines" viewBox={`0 0 ${WIDTH} ${WIDTH}`} preserveAspectRatio="none" aria-hidden="true">
      {lines.map((series) => {
        const points = node.data.map((row, at) => `${x(at)},${y(Number(row[series.dataKey]) || 0)}`);
        const closed = [`${x(0)},${WIDTH}`, ...points, `${x(node.data.length - 1)},${WIDTH}`];
        const color = colorOf(node, series);
        return (
          <g key={series.dataKey} stroke={color}>
            {series.type === "area" && <polygon points={closed.join(" ")} fill={color} opacity="0.18" stroke="none" />}
            <polyline points={points.join(" ")} fill="none" strokeWidth="2" vectorEffect="non-scaling-stroke" />
          </g>
        );
      })}
    </svg>
  );
}
