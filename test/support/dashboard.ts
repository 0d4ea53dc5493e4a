import { readFileSync } from 'node:fs';
import type { Dashboard, Panel } from '@grafana/schema';

/** Of the tree of files, as text. */
export const readDeployed = (path: string): string =>
  readFileSync(new URL(`../../deploy/${path}`, import.meta.url), 'utf8');

export const dashboard = JSON.parse(readDeployed('grafana/mdx-gateway.json')) as Dashboard;

export const panels = (dashboard.panels ?? []).filter(
  (panel): panel is Panel => panel.type !== 'row',
);

/** What Grafana asks Prometheus, and what it writes beside the answer. */
export interface Query {
  /** Of its panel and legend, or of the mark over all panels. */
  readonly title: string;
  readonly expr: string;
  readonly legend: string;
}

export const queries: readonly Query[] = panels.flatMap(({ title, targets = [] }) =>
  targets.map(({ expr, legendFormat }) => ({
    title: `${title} ${legendFormat as string}`.trim(),
    expr: expr as string,
    legend: legendFormat as string,
  })),
);

export const marks: readonly Query[] = (dashboard.annotations?.list ?? []).map((mark) => ({
  title: mark.name,
  expr: (mark.target as unknown as { expr: string }).expr,
  legend: (mark as unknown as { titleFormat: string }).titleFormat,
}));

/** An expression as Prometheus is asked, for what the variables of the dashboard stand for. */
export const filledIn = (expr: string, values: Readonly<Record<string, string>>): string =>
  expr.replaceAll(/\$(\w+)/g, (variable, name: string) => values[name] ?? variable);
