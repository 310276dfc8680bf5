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
  /** The value as people write it. */
  readonly text: string;
  /** Against the day before, in percent. */
  readonly change: number;
  /** One value a day, oldest first. */
  readonly history: readonly number[];
}
