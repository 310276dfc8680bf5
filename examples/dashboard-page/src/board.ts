/** The state of the dashboard agent: see examples/dashboard/agent.py. */
export interface Board {
  readonly metrics?: Readonly<Record<MetricName, Metric>>;
  readonly days?: readonly string[];
  readonly updated_at?: string;
  readonly refreshes?: number;
}

export const METRICS = ["income_7d", "apy", "users", "aum", "points"] as const;
export type MetricName = (typeof METRICS)[number];

export interface Metric {
  readonly label: string;
  /** The formatted value. */
  readonly text: string;
  /** The change since the day before, in percent. */
  readonly change: number;
  /** One value per day, oldest first. */
  readonly history: readonly number[];
}
