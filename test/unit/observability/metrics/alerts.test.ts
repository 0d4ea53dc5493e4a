import { expect, test } from '@jest/globals';
import { readFileSync } from 'node:fs';
import { parse } from 'yaml';
import { EVENTS } from '../../../../src/features/events.ts';
import { createMetrics } from '../../../../src/observability/metrics.ts';
import { gauges } from '../../../support/gauges.ts';
import { anyName } from '../../cache/fakes.ts';

interface Rules {
  readonly groups: readonly { readonly rules: readonly Rule[] }[];
}
interface Rule {
  readonly alert?: string;
  readonly record?: string;
  readonly expr: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
}
interface Trials {
  readonly tests: readonly {
    readonly name: string;
    readonly input_series: readonly { readonly series: string }[];
    readonly promql_expr_test: readonly {
      readonly expr: string;
      readonly exp_samples: readonly { readonly labels: string; readonly value: number }[];
    }[];
  }[];
}

const read = (path: string) =>
  readFileSync(new URL(`../../../../${path}`, import.meta.url), 'utf8');
const { groups } = parse(read('deploy/prometheus/rules.yml')) as Rules;
const trials = parse(read('deploy/prometheus/tests.yml')) as Trials;
const rules = groups.flatMap((group) => group.rules);
const alerts = rules.filter(({ alert }) => alert !== undefined);
const nameOf = ({ alert = '' }: Rule) => alert;
/** What Prometheus adds to each series of a gateway. */
const SCRAPED = ['job', 'instance'];

/** Each metric of the gateway, as it stands in a page, with its labels; and `up`, which Prometheus makes of each target. */
function metricsByName(): ReadonlyMap<string, readonly string[]> {
  const found = new Map<string, readonly string[]>([['up', []]]);
  for (const metric of createMetrics(EVENTS, anyName, gauges()).registry.getMetricsAsArray()) {
    const { labelNames } = metric as unknown as { labelNames: readonly string[] };
    found.set(metric.name, labelNames);
    if (String(metric.type) !== 'histogram') continue;
    found.set(`${metric.name}_bucket`, labelNames.concat('le'));
    for (const part of ['sum', 'count']) found.set(`${metric.name}_${part}`, labelNames);
  }
  return found;
}

/** The metrics that an expression or a series names, with the labels it names of each. */
function namedIn(expression: string) {
  return [...expression.matchAll(/\b(?<name>mdx_gateway_\w+|up)\b(?:\{(?<labels>[^}]*)\})?/g)]
    .filter(({ index }) => expression[index - 1] !== ':')
    .map(({ groups: { name = '', labels = '' } = {} }) => ({
      name,
      labels: [...labels.matchAll(/(\w+)\s*=/g)].map(([, label]) => label ?? ''),
    }));
}

/** Those by which an expression sums up. */
const summedBy = (expression: string) =>
  [...expression.matchAll(/\b(?:by|on) \(([^)]*)\)/g)].flatMap(([, list = '']) => list.split(', '));

test('each alert says how severe it is, what is so, and where the runbook says what to do', () => {
  expect(alerts.length).toBeGreaterThanOrEqual(19);
  for (const { alert, labels, annotations } of alerts) {
    expect({ alert, ...labels, ...annotations }).toEqual({
      alert,
      severity: expect.stringMatching(/^(?:critical|warning)$/),
      summary: expect.stringMatching(/\.$/),
      description: expect.stringMatching(/\.$/),
      runbook_url: `docs/RUNBOOK.md#${alert?.toLowerCase()}`,
    });
  }
});

test('the runbook has a section for each alert, as severe as that, and for nothing else', () => {
  const [, ...sections] = read('docs/RUNBOOK.md').split(/^### /m);
  const told = sections.map((text) => {
    const [name = '', ...lines] = text.split('\n');
    const body = lines.join('\n');
    expect(body).toMatch(
      /^\n(?:critical|warning)\. .*\n\n- \*\*Users notice:\*\* .*\n- \*\*Look at:\*\* .*\n- \*\*Do:\*\* /s,
    );
    return [name, /^\n(\w+)/.exec(body)?.[1]];
  });
  const wanted = alerts.map((rule) => [nameOf(rule), rule.labels?.['severity']]);
  expect(told.toSorted()).toEqual(wanted.toSorted());
});

test('the list at its head leads to each section', () => {
  const head = read('docs/RUNBOOK.md').split(/^## /m)[0] ?? '';
  const linked = [...head.matchAll(/\[(\w+)\]\(#(\w+)\)/g)];
  expect(linked.map(([, name]) => name).toSorted()).toEqual(alerts.map(nameOf).toSorted());
  for (const [, name, anchor] of linked) expect(anchor).toBe(name?.toLowerCase());
});

test('each metric and label in the rules and their trials is one that the gateway has', () => {
  const known = metricsByName();
  const recorded = rules.flatMap(({ record }) => record ?? []);
  const expressions = rules.map(({ expr }) => expr);
  const series = trials.tests.flatMap((one) => one.input_series.map((input) => input.series));
  expect(series.length).toBeGreaterThan(alerts.length);
  for (const expression of [...expressions, ...series]) {
    const named = namedIn(expression);
    const labelsOf = (name: string) => [...SCRAPED, ...(known.get(name) ?? [])];
    for (const { name, labels } of named) {
      expect([...known.keys()]).toContain(name);
      expect(labelsOf(name)).toEqual(expect.arrayContaining(labels));
    }
    const all = named.flatMap(({ name }) => labelsOf(name));
    expect(all.concat(SCRAPED)).toEqual(expect.arrayContaining(summedBy(expression)));
    const records = expression.match(/\bjob:\w+:\w+/g) ?? [];
    expect(recorded).toEqual(expect.arrayContaining(records));
  }
});

test('what is recorded is used by an alert', () => {
  const expressions = alerts.map(({ expr }) => expr).join('\n');
  for (const { record } of rules) if (record) expect(expressions).toContain(record);
});

test('each alert has a trial in which it fires for what is bad, and is quiet for what is good', () => {
  const tried = trials.tests.flatMap((one) => {
    const name = one.name.split(',')[0] ?? '';
    const [{ expr = '', exp_samples = [] } = {}] = one.promql_expr_test;
    expect(expr).toContain(`alertname="${name}"`);
    expect(exp_samples).toHaveLength(1);
    const isTold = (which: string) =>
      one.input_series.some(({ series }) => series.includes(`"${which}"`));
    const isBoth = isTold('bad') && isTold('good');
    return isBoth && exp_samples[0]?.labels.includes('"bad"') ? name : [];
  });
  expect([...new Set(tried)].toSorted()).toEqual(alerts.map(nameOf).toSorted());
});
