import { METRICS, type Board, type Metric } from "./board";

export function Metrics({ board }: { board: Board }) {
  return (
    <section className="metrics" aria-label="Figures">
      {METRICS.map((name) => (
        <MetricCard key={name} name={name} metric={board.metrics?.[name]} days={board.days ?? []} />
      ))}
    </section>
  );
}

const LABELS = { income_7d: "7-day income", apy: "APY", users: "Users", aum: "AUM", points: "Points" };

interface CardProps {
  name: (typeof METRICS)[number];
  metric: Metric | undefined;
  days: readonly string[];
}

function MetricCard({ name, metric, days }: CardProps) {
  return (
    <article className="card" data-metric={name}>
      <h2>{metric?.label ?? LABELS[name]}</h2>
      <p className="value">{metric?.text ?? "—"}</p>
      {metric && (
        <>
          <p className={metric.change < 0 ? "change down" : "change up"}>
            {metric.change > 0 ? "+" : ""}
            {metric.change.toFixed(2)} % <span>since the day before</span>
          </p>
          <Sparkline metric={metric} days={days} />
        </>
      )}
    </article>
  );
}

const WIDTH = 200;
const HEIGHT = 40;

function Sparkline({ metric: { label, history }, days }: { metric: Metric; days: readonly string[] }) {
  const low = Math.min(...history);
  const span = Math.max(...history) - low || 1;
  const points = history.map(
    (value, day) => `${(day / Math.max(1, history.length - 1)) * WIDTH},${HEIGHT - 3 - ((value - low) / span) * (HEIGHT - 6)}`,
  );
  return (
    <svg className="sparkline" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img">
      <title>{`${label}, ${days[0] ?? ""} to ${days.at(-1) ?? ""}`}</title>
      <polygon points={`0,${HEIGHT} ${points.join(" ")} ${WIDTH},${HEIGHT}`} />
      <polyline points={points.join(" ")} />
    </svg>
  );
}
