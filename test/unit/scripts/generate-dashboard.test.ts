import { describe, expect, test } from '@jest/globals';
import { parser } from '@prometheus-io/lezer-promql';
import { parse } from 'yaml';
import { renderDashboard } from '../../../scripts/generate-dashboard.ts';
import { EVENTS } from '../../../src/features/events.ts';
import { createMetrics } from '../../../src/observability/metrics.ts';
import {
  dashboard,
  filledIn,
  marks,
  panels,
  queries,
  readDeployed,
} from '../../support/dashboard.ts';
import { gauges } from '../../support/gauges.ts';
import { anyName } from '../cache/fakes.ts';

/** Metrics that are on no panel, with the reason. */
const LEFT_OUT: readonly (readonly [metrics: RegExp, why: string])[] = [
  [
    /^mdx_gateway_(?:process|nodejs)_/,
    'Of Node.js and its process those are shown that tell whether it has enough; the others are for those who look for a fault in the program.',
  ],
];

/** What Prometheus and its alerts know by themselves, with their labels. */
const OF_PROMETHEUS = { ALERTS: ['alertname', 'alertstate', 'job', 'project', 'hook'] };

/** Series of the gateway by name, with what they are of and their labels. */
const SERIES = new Map<string, Readonly<{ metric: string; labels: readonly string[] }>>(
  createMetrics(EVENTS, anyName, gauges())
    .registry.getMetricsAsArray()
    .flatMap((metric) => {
      const { name } = metric;
      const labels = [
        'instance',
        ...(metric as unknown as { labelNames: readonly string[] }).labelNames,
      ];
      const own = [name, { metric: name, labels }] as const;
      if (String(metric.type) !== 'histogram') return [own];
      const buckets = { metric: name, labels: [...labels, 'le'] };
      return [[`${name}_bucket`, buckets] as const];
    }),
);
for (const [name, labels] of Object.entries(OF_PROMETHEUS))
  SERIES.set(name, { metric: '', labels });

const VALUES = { instance: '.*', project: '.*', __rate_interval: '1m', __range: '1h' };
const COUNTED = /_(?:total|bucket)$/;

/** What an expression names; throws for one that Prometheus cannot read. */
function read(written: string) {
  const expr = filledIn(written, VALUES);
  const named = { metrics: [] as string[], matched: [] as string[], by: [] as string[] };
  /** Counters whose value is taken as it stands, and gauges of which a rate is. */
  const misread: string[] = [];
  parser.parse(expr).iterate({
    enter({ type, from, to, node }) {
      const text = expr.slice(from, to);
      if (type.isError) throw new Error(`at ${from} of ${expr}`);
      if (type.name === 'LabelName') {
        const inGrouping = node.parent?.type.name === 'GroupingLabels';
        (inGrouping ? named.by : named.matched).push(text);
      }
      if (type.name !== 'VectorSelector') return;
      const name = /^\w+/.exec(text)?.[0] ?? '';
      named.metrics.push(name);
      const isRange = node.parent?.type.name === 'MatrixSelector';
      if (isRange !== COUNTED.test(name)) misread.push(name);
    },
  });
  return { ...named, misread };
}

const legendLabels = (legend: string) =>
  [...legend.matchAll(/\{\{(\w+)\}\}/g)].map(([, name]) => name);

describe('deploy/grafana/mdx-gateway.json', () => {
  test('is made by scripts/generate-dashboard.ts, and up to date', () => {
    expect(readDeployed('grafana/mdx-gateway.json')).toBe(renderDashboard());
  });

  test('an expression that Prometheus cannot read is found, and so is a counter that is read as a gauge', () => {
    expect(() => read('sum(rate(mdx_gateway_stored_total[$__rate_interval])')).toThrow(/^at /);
    expect(() => read('sum(rate(mdx_gateway_stored_total[$interval]))')).toThrow(/^at /);
    expect(read('sum(a_total) + rate(b[1m])').misread).toEqual(['a_total', 'b']);
    expect(read('sum by (x) (rate(a_total{y="1"}[1m]))')).toEqual({
      metrics: ['a_total'],
      matched: ['y'],
      by: ['x'],
      misread: [],
    });
  });

  test.each([...queries, ...marks])(
    'asks for metrics and labels that the gateway has: $title',
    ({ expr, legend }) => {
      const { metrics, matched, by, misread } = read(expr);
      expect([...SERIES.keys()]).toEqual(expect.arrayContaining(metrics));
      expect(misread).toEqual([]);
      const known = metrics.flatMap((name) => SERIES.get(name)?.labels ?? []);
      expect(known).toEqual(expect.arrayContaining([...matched, ...by]));
      // What sums up by labels has no others.
      const left = /\b(?:sum|min|max|count) (?:by )?\(/.test(expr) ? by : known;
      expect(left).toEqual(expect.arrayContaining(legendLabels(legend)));
      // The variables at its head count, on every panel that can follow them.
      const ofGateways = metrics.filter((name) => name !== 'ALERTS');
      expect(expr.split('instance=~"$instance"')).toHaveLength(ofGateways.length + 1);
      const ofProjects = metrics.filter((name) => SERIES.get(name)?.labels.includes('project'));
      const follow = ofProjects.filter((name) => name !== 'ALERTS').length;
      expect(expr.split('project=~"$project"')).toHaveLength(follow + 1);
    },
  );

  test('shows every metric of the gateway, but for those that are left out with a reason', () => {
    const shown = new Set(
      queries.flatMap(({ expr }) => read(expr).metrics.map((name) => SERIES.get(name)?.metric)),
    );
    const missing = [...SERIES.values()]
      .map(({ metric }) => metric)
      .filter((metric) => metric !== '' && !shown.has(metric))
      .filter((metric) => LEFT_OUT.every(([left]) => !left.test(metric)));
    expect(missing).toEqual([]);
  });

  test('says of every panel what it shows, in which unit, and from the source that was chosen', () => {
    expect(panels.length).toBeGreaterThan(50);
    const datasource = { type: 'prometheus', uid: '${datasource}' };
    for (const { title, description, datasource: own, fieldConfig, targets = [] } of panels) {
      expect(title).toMatch(/^[A-Z0-9]/);
      expect(description).toMatch(/^\S.{15,}\.$/);
      expect(fieldConfig?.defaults.unit).toMatch(/^\w+$/);
      expect([own, ...targets.map((target) => target['datasource'])]).toEqual(
        [own, ...targets].map(() => datasource),
      );
      const refIds = targets.map(({ refId }) => refId);
      expect(refIds.length).toBeGreaterThan(0);
      expect(new Set(refIds).size).toBe(refIds.length);
    }
    for (const mark of dashboard.annotations?.list ?? [])
      expect(mark.datasource).toEqual(datasource);
  });

  test('can be imported anywhere: without an id of its own, by a source that is chosen there', () => {
    expect(dashboard).toMatchObject({ id: null, uid: 'mdx-gateway', schemaVersion: 39 });
    const variables = dashboard.templating?.list ?? [];
    expect(variables.map(({ name, type }) => [name, type])).toEqual([
      ['datasource', 'datasource'],
      ['instance', 'query'],
      ['project', 'query'],
    ]);
    for (const { name, query } of variables.slice(1)) {
      const asked = (query as { query: string }).query;
      const [, metric = '', label] = /^label_values\((\w+), (\w+)\)$/.exec(asked) ?? [];
      expect(label).toBe(name);
      expect(SERIES.get(metric)?.labels).toContain(label);
    }
  });

  test('no panel covers another, and none has the number of another', () => {
    const all = dashboard.panels ?? [];
    expect(new Set(all.map(({ id }) => id)).size).toBe(all.length);
    const taken = new Set<string>();
    for (const { title, gridPos } of all) {
      const { x = -1, y = -1, w = 0, h = 0 } = gridPos ?? {};
      expect(w * h).toBeGreaterThan(0);
      expect([x >= 0, y >= 0, x + w <= 24]).toEqual([true, true, true]);
      for (let at = 0; at < w * h; at += 1) {
        const cell = `${x + (at % w)}, ${y + Math.floor(at / w)}`;
        expect([title, taken.has(cell)]).toEqual([title, false]);
        taken.add(cell);
      }
    }
    const lowest = Math.max(...all.map(({ gridPos }) => (gridPos?.y ?? 0) + (gridPos?.h ?? 0)));
    // And no hole is between them.
    expect(taken.size).toBe(24 * lowest);
  });
});

test('Grafana finds the dashboard where compose puts it, and asks Prometheus as often as that reads gateways', () => {
  const { providers } = parse(readDeployed('grafana/provisioning/dashboards/mdx-gateway.yml')) as {
    providers: unknown;
  };
  expect(providers).toEqual([
    expect.objectContaining({ type: 'file', options: { path: '/var/lib/grafana/dashboards' } }),
  ]);
  const { datasources } = parse(
    readDeployed('grafana/provisioning/datasources/prometheus.yml'),
  ) as { datasources: unknown };
  const { global } = parse(readDeployed('prometheus/prometheus.yml')) as {
    global: { scrape_interval: string };
  };
  expect(datasources).toEqual([
    expect.objectContaining({
      type: 'prometheus',
      url: 'http://prometheus:9090',
      isDefault: true,
      jsonData: { timeInterval: global.scrape_interval },
    }),
  ]);
});
