/**
 * Makes deploy/grafana/mdx-gateway.json, the dashboard for Grafana, from the table of its panels below. Run it after
 * every change here; a test fails while they differ. Another compares the expressions with the metrics of the gateway.
 */

import { writeFileSync } from 'node:fs';
import type { Dashboard, Panel, RowPanel } from '@grafana/schema';
import type * as heatmap from '@grafana/schema/dist/esm/raw/composable/heatmap/panelcfg/x/HeatmapPanelCfg_types.gen';
import type * as stat from '@grafana/schema/dist/esm/raw/composable/stat/panelcfg/x/StatPanelCfg_types.gen';
import type * as states from '@grafana/schema/dist/esm/raw/composable/statetimeline/panelcfg/x/StateTimelinePanelCfg_types.gen';
import type * as lines from '@grafana/schema/dist/esm/raw/composable/timeseries/panelcfg/x/TimeSeriesPanelCfg_types.gen';

const FILE = new URL('../deploy/grafana/mdx-gateway.json', import.meta.url);

/** The same with the plain words and numbers that the file holds, where the schema has enumerations. */
type Plain<T> = unknown extends T
  ? T
  : T extends string
    ? `${T}`
    : T extends object
      ? { [K in keyof T]: Plain<T[K]> }
      : T;

/** As Grafana names them. `cpm`: times a minute, for what is rare. */
type Unit = 'none' | 'short' | 's' | 'bytes' | 'Bps' | 'percentunit' | 'reqps' | 'cpm';

/** What a panel is, before it has its place. */
interface Drawn {
  readonly width: number;
  readonly height: number;
  readonly panel: Plain<Omit<Panel, 'id' | 'gridPos'>>;
}

/** Expressions by their legend, in which `{{label}}` stands for the value of a label. */
type Queries = Readonly<Record<string, string>>;

type Defaults = NonNullable<Plain<Panel>['fieldConfig']>['defaults'];
type Override = NonNullable<Plain<Panel>['fieldConfig']>['overrides'][number];

// Expressions. `$instance` and `$project` are variables of the dashboard, the rest is filled in by Grafana.

/** Of the chosen gateways. @param matchers such as `outcome="hit"` */
const of = (name: string, ...matchers: readonly string[]): string =>
  `mdx_gateway_${name}{${['instance=~"$instance"', ...matchers].join(',')}}`;
/** A matcher, for metrics that have this label. */
const PROJECT = 'project=~"$project"';
const rate = (...metric: Parameters<typeof of>): string =>
  `rate(${of(...metric)}[$__rate_interval])`;
const perMinute = (...metric: Parameters<typeof of>): string => `60 * ${rate(...metric)}`;
/** Over the whole time that the dashboard shows. */
const total = (...metric: Parameters<typeof of>): string =>
  `sum(increase(${of(...metric)}[$__range]))`;
const sum = (expression: string): string => `sum(${expression})`;
const by = (labels: string, expression: string): string => `sum by (${labels}) (${expression})`;
const quantile = (part: number, buckets: string): string =>
  `histogram_quantile(${part}, ${buckets})`;
/** 0 where there is no series yet, as before the first hit. */
const orNone = (expression: string): string => `(${expression} or vector(0))`;

const HITS = 'outcome="hit"';
/** Of what the cache may answer, without what it lets pass. */
const QUERIES = 'outcome=~"hit|miss"';

// Panels.

const DATASOURCE = { type: 'prometheus', uid: '${datasource}' };

/** Over time, or `instant`, for what is so at its end. */
const targets = (queries: Queries, { instant = false, format = 'time_series' } = {}) =>
  Object.entries(queries).map(([legend, expr], at) => ({
    refId: String.fromCodePoint('A'.codePointAt(0)! + at),
    datasource: DATASOURCE,
    editorMode: 'code',
    expr,
    legendFormat: legend,
    instant,
    range: !instant,
    format,
  }));

interface Look extends Pick<Defaults, 'mappings' | 'noValue' | 'max' | 'decimals'> {
  readonly width?: number;
  /** From which value on a figure is red, or below which. */
  readonly red?: number;
  readonly redBelow?: number;
}

function thresholds({ red, redBelow }: Look): NonNullable<Defaults['thresholds']> {
  const steps =
    redBelow === undefined
      ? [{ color: 'green', value: null }]
      : [
          { color: 'red', value: null },
          { color: 'green', value: redBelow },
        ];
  if (red !== undefined) steps.push({ color: 'red', value: red });
  return { mode: 'absolute', steps };
}

/** One figure: what is so now, or over the whole time that is shown. */
function figure(
  title: string,
  unit: Unit,
  description: string,
  expression: string,
  { legend = '', ...look }: Look & { readonly legend?: string } = {},
): Drawn {
  const { width = 4, red: _, redBelow: __, ...defaults } = look;
  const options: Plain<stat.Options> = {
    reduceOptions: { calcs: ['lastNotNull'], fields: '', values: false },
    orientation: 'auto',
    textMode: legend === '' ? 'value' : 'value_and_name',
    colorMode: 'value',
    graphMode: 'none',
    justifyMode: 'auto',
    wideLayout: true,
    showPercentChange: false,
    percentChangeColorMode: 'standard',
  };
  return {
    width,
    height: 4,
    panel: {
      type: 'stat',
      title,
      description,
      datasource: DATASOURCE,
      targets: targets({ [legend]: expression }, { instant: true }),
      fieldConfig: {
        defaults: {
          unit,
          ...defaults,
          color: { mode: 'thresholds' },
          thresholds: thresholds(look),
        },
        overrides: [],
      },
      options: { ...options },
    },
  };
}

const COLORS = { hit: 'green', miss: 'orange', bypass: 'blue', gateway: 'purple' };
/** Outcomes have the same colors on all panels. */
const OUTCOMES: Override[] = Object.entries(COLORS).map(([outcome, fixedColor]) => ({
  matcher: { id: 'byName', options: outcome },
  properties: [{ id: 'color', value: { mode: 'fixed', fixedColor } }],
}));
/** A dashed line beside the others. */
const LIMIT: Override = {
  matcher: { id: 'byName', options: 'limit' },
  properties: [
    { id: 'color', value: { mode: 'fixed', fixedColor: 'red' } },
    { id: 'custom.lineStyle', value: { fill: 'dash', dash: [8, 8] } },
    { id: 'custom.fillOpacity', value: 0 },
    { id: 'custom.stacking', value: { mode: 'none', group: 'A' } },
  ],
};

/** Lines over time. @param stacked where the sum of the lines tells something too */
function graph(
  title: string,
  unit: Unit,
  description: string,
  queries: Queries,
  { stacked = false, width = 8, ...defaults }: Look & { readonly stacked?: boolean } = {},
): Drawn {
  const options: Plain<lines.Options> = {
    legend: { displayMode: 'list', placement: 'bottom', showLegend: true, calcs: [] },
    tooltip: { mode: 'multi', sort: 'desc', hideZeros: true },
  };
  const custom: Plain<lines.FieldConfig> = {
    drawStyle: 'line',
    lineWidth: 1,
    fillOpacity: stacked ? 40 : 10,
    showPoints: 'auto',
    pointSize: 4,
    stacking: { mode: stacked ? 'normal' : 'none', group: 'A' },
  };
  return {
    width,
    height: 8,
    panel: {
      type: 'timeseries',
      title,
      description,
      datasource: DATASOURCE,
      targets: targets(queries),
      fieldConfig: {
        defaults: { unit, min: 0, ...defaults, color: { mode: 'palette-classic' }, custom },
        overrides: [
          ...('{{outcome}}' in queries ? OUTCOMES : []),
          ...('limit' in queries ? [LIMIT] : []),
        ],
      },
      options: { ...options },
    },
  };
}

/** What was so and what was not, over time. @param words for 0 and for 1 @param bad which of the two is red */
function timeline(
  title: string,
  description: string,
  queries: Queries,
  words: readonly [string, string],
  bad: 0 | 1,
  { small = false, noValue }: { readonly small?: boolean; readonly noValue: string },
): Drawn {
  const options: Plain<states.Options> = {
    legend: { displayMode: 'list', placement: 'bottom', showLegend: false, calcs: [] },
    tooltip: { mode: 'single', sort: 'none' },
    mergeValues: true,
    rowHeight: 0.8,
    showValue: 'auto',
  };
  const custom: Plain<states.FieldConfig> = { lineWidth: 0, fillOpacity: 70 };
  const results = words.map((text, value) => [
    String(value),
    { text, color: value === bad ? 'red' : 'green' },
  ]);
  const mappings: NonNullable<Defaults['mappings']> = [
    { type: 'value', options: Object.fromEntries(results) },
  ];
  return {
    width: small ? 8 : 12,
    height: 8,
    panel: {
      type: 'state-timeline',
      title,
      description,
      datasource: DATASOURCE,
      targets: targets(queries),
      fieldConfig: {
        defaults: { unit: 'none', noValue, mappings, color: { mode: 'thresholds' }, custom },
        overrides: [],
      },
      options: { ...options },
    },
  };
}

/** How many took how long, over time. @param buckets of a histogram in seconds */
function times(title: string, description: string, buckets: string): Drawn {
  const options: Plain<heatmap.Options> = {
    calculate: false,
    cellGap: 1,
    cellValues: { unit: 'reqps' },
    color: {
      mode: 'scheme',
      scheme: 'Oranges',
      scale: 'exponential',
      exponent: 0.5,
      steps: 64,
      fill: 'dark-orange',
      reverse: false,
    },
    exemplars: { color: 'rgba(255,0,255,0.7)' },
    // Empty cells stay empty.
    filterValues: { le: 1e-9 },
    legend: { show: true },
    rowsFrame: { layout: 'auto' },
    showValue: 'never',
    tooltip: { mode: 'single', yHistogram: false, showColorScale: false },
    yAxis: { axisPlacement: 'left', reverse: false, unit: 's' },
  };
  return {
    width: 12,
    height: 8,
    panel: {
      type: 'heatmap',
      title,
      description,
      datasource: DATASOURCE,
      targets: targets({ '{{le}}': buckets }, { format: 'heatmap' }),
      fieldConfig: { defaults: { unit: 's' }, overrides: [] },
      options: { ...options },
    },
  };
}

/** The median, and what one in twenty and one in a hundred takes longer than. */
const shares = (buckets: string): Queries => ({
  median: quantile(0.5, buckets),
  '95 %': quantile(0.95, buckets),
  '99 %': quantile(0.99, buckets),
});

/** The rows in the order in which an operator asks. */
const ROWS: readonly (readonly [question: string, panels: readonly Drawn[]])[] = [
  [
    'Is it up, and does it serve?',
    [
      figure(
        'Gateways',
        'none',
        'Gateways that answered the latest scrape. If these are fewer than you run, one is down, or Prometheus cannot log in there.',
        `count(${of('build_info')})`,
        { width: 3, redBelow: 1, noValue: 'none' },
      ),
      figure(
        'From the cache',
        'percentunit',
        'Of the queries that the cache may answer, how many it did, in the time that is shown.',
        `${orNone(total('xmla_requests_total', HITS, PROJECT))} / ${total('xmla_requests_total', QUERIES, PROJECT)}`,
        { width: 3, noValue: 'no queries' },
      ),
      figure(
        'Engine time saved',
        's',
        'What the engine would have worked for the answers that came from the cache, in the time that is shown.',
        orNone(total('engine_seconds_saved_total', PROJECT)),
        { width: 3 },
      ),
      figure(
        'Purges pending',
        'none',
        'Scopes whose purge Redis has not confirmed. Until it has, other gateways may still answer what they should drop.',
        sum(of('purges_owed')),
        { width: 3, red: 1 },
      ),
      figure(
        'Failures of the gateway',
        'none',
        'Failures of the gateway itself in the time that is shown. Each is a mistake of the program: report the lines internal-error of the log.',
        total('internal_errors_total'),
        { width: 3, red: 1, decimals: 0 },
      ),
      figure(
        'Latest reload',
        'none',
        'Whether the latest reload of the configuration did what it should at all gateways. A gateway whose reload failed goes on with the old one; its log says why.',
        `min(${of('config_last_reload_successful')})`,
        {
          width: 3,
          redBelow: 1,
          mappings: [
            { type: 'value', options: { 0: { text: 'failed' }, 1: { text: 'in force' } } },
          ],
        },
      ),
      figure(
        'Certificate ends in',
        's',
        'The time that is left to the certificate which ends first, of those that gateways with HTTPS of their own have.',
        `min(${of('certificate_end_seconds')}) - time()`,
        { width: 3, redBelow: 14 * 86_400, noValue: 'none' },
      ),
      figure(
        'Version',
        'none',
        'Gateways of each version. There are two during an upgrade, and one after it.',
        `count by (version) (${of('build_info')})`,
        { width: 3, legend: '{{version}}' },
      ),
      timeline(
        'Alerts that fire',
        'The alerts of deploy/prometheus/rules.yml, where Prometheus has them. docs/RUNBOOK.md says of each what it means and what to do.',
        {
          '{{alertname}} {{project}} {{hook}}':
            'max by (alertname, project, hook) (ALERTS{job="mdx-gateway",alertstate="firing"})',
        },
        ['', 'firing'],
        1,
        { noValue: 'None' },
      ),
      timeline(
        'Engines, Redis, storage',
        'What the gateways say of the parts they need, as far as they know: down where any gateway says so. An engine that is up is not asked again by a timer; requests that it fails are further below.',
        { '{{part}} {{name}}': `min by (part, name) (${of('up')})` },
        ['down', 'up'],
        0,
        { noValue: 'Nothing is known yet' },
      ),
      graph(
        'Requests by outcome',
        'reqps',
        'XMLA requests: answered from the cache (hit), asked of the engine (miss), passed on because the cache may not answer them (bypass), or answered by the gateway itself.',
        { '{{outcome}}': by('outcome', rate('xmla_requests_total', PROJECT)) },
        { stacked: true, width: 12 },
      ),
      graph(
        'Refusals and failures, by reason',
        'reqps',
        'Requests that were answered by the gateway itself. docs/OBSERVABILITY.md says what each word means: engine-… the engine did not answer, overloaded too many wait already, unauthenticated no valid login.',
        { '{{reason}}': by('reason', rate('xmla_requests_total', 'outcome="gateway"', PROJECT)) },
        { stacked: true, width: 12, noValue: 'None' },
      ),
    ],
  ],
  [
    'How much comes from the cache, and what does that save?',
    [
      graph(
        'From the cache',
        'percentunit',
        'Of the queries that the cache may answer, how many it did. It falls after a purge, and rises as users or the warm-up ask again.',
        {
          'all projects': `${orNone(sum(rate('xmla_requests_total', HITS, PROJECT)))} / ${sum(rate('xmla_requests_total', QUERIES, PROJECT))}`,
        },
        { max: 1, noValue: 'No queries' },
      ),
      graph(
        'From the cache, by project',
        'percentunit',
        'The same for each project. `other` are names that the engine has not answered yet.',
        {
          '{{project}}': `${by('project', rate('xmla_requests_total', HITS, PROJECT))} / ${by('project', rate('xmla_requests_total', QUERIES, PROJECT))}`,
        },
        { max: 1, noValue: 'No hits' },
      ),
      graph(
        'Queries, by project',
        'reqps',
        'XMLA requests of each project, whatever became of them.',
        { '{{project}}': by('project', rate('xmla_requests_total', PROJECT)) },
        { stacked: true },
      ),
      graph(
        'Engine time a second: spent and saved',
        's',
        'Seconds that the engine worked in each second, and would have worked for what came from the cache: 2 saved is as much as two queries at any time.',
        {
          spent: orNone(sum(rate('engine_seconds_total', PROJECT))),
          saved: orNone(sum(rate('engine_seconds_saved_total', PROJECT))),
        },
      ),
      graph(
        'Engine time saved a second, by project',
        's',
        'Where the cache is worth most.',
        { '{{project}}': by('project', rate('engine_seconds_saved_total', PROJECT)) },
        { stacked: true, noValue: 'No hits' },
      ),
      graph(
        'Where hits came from',
        'reqps',
        'The memory of the process, Redis, or the answer that another request was fetching (coalesced).',
        { '{{reason}}': by('reason', rate('xmla_requests_total', HITS, PROJECT)) },
        { stacked: true, noValue: 'No hits' },
      ),
      graph(
        'Past the cache, by reason',
        'reqps',
        'Why requests were passed on without a look into the cache. docs/OBSERVABILITY.md says of each reason what to do about it.',
        { '{{reason}}': by('reason', rate('xmla_requests_total', 'outcome="bypass"', PROJECT)) },
        { stacked: true, noValue: 'None' },
      ),
      graph(
        'Answers not stored, by reason',
        'reqps',
        'Why answers were not stored that might have been: a fault, an error in a cell, too large.',
        { '{{reason}}': by('reason', rate('not_stored_total')) },
        { stacked: true },
      ),
      graph(
        'Answers stored, by project',
        'reqps',
        'Answers that went into the cache, by users and by the warm-up.',
        { '{{project}}': by('project', rate('stored_total', PROJECT)) },
        { stacked: true, noValue: 'None' },
      ),
      graph(
        'Bytes of answers, by outcome',
        'Bps',
        'What the gateways sent to clients.',
        { '{{outcome}}': by('outcome', rate('xmla_answer_bytes_total')) },
        { stacked: true, width: 12 },
      ),
      graph(
        'Bytes stored',
        'Bps',
        'What went into the cache.',
        { stored: sum(rate('stored_bytes_total')) },
        { width: 12 },
      ),
    ],
  ],
  [
    'How long do users wait?',
    [
      graph(
        'Median, by outcome',
        's',
        'Half of the answers took longer, from the head of the request to the end of the answer. A hit takes a millisecond or so; a miss what the engine needs.',
        { '{{outcome}}': quantile(0.5, by('le, outcome', rate('xmla_seconds_bucket'))) },
      ),
      graph('95 %, by outcome', 's', 'One answer in twenty took longer.', {
        '{{outcome}}': quantile(0.95, by('le, outcome', rate('xmla_seconds_bucket'))),
      }),
      graph('99 %, by outcome', 's', 'One answer in a hundred took longer.', {
        '{{outcome}}': quantile(0.99, by('le, outcome', rate('xmla_seconds_bucket'))),
      }),
      times(
        'Hits: how many took how long',
        'The darker, the more answers a second. Hits that take seconds waited for another request, or for a client that reads slowly.',
        by('le', rate('xmla_seconds_bucket', HITS)),
      ),
      times(
        'Misses: how many took how long',
        'The darker, the more answers a second.',
        by('le', rate('xmla_seconds_bucket', 'outcome="miss"')),
      ),
      graph(
        'Answers that did not reach their end',
        'cpm',
        'The client went away before it had the whole answer, or the engine broke off.',
        { incomplete: sum(perMinute('xmla_incomplete_total')) },
        { width: 24 },
      ),
    ],
  ],
  [
    'Do purges arrive, and how soon?',
    [
      graph(
        'Purges, by result',
        'cpm',
        'cleared: all gateways have dropped it. owed: Redis did not confirm it yet. engine-failed: an engine did not clear its own cache.',
        { '{{result}}': by('result', perMinute('purges_total')) },
        { stacked: true },
      ),
      graph(
        'Purges, by cause',
        'cpm',
        'What asked for them: clearCache and its repetition, a change of a dataset, a statement to the engine, a hook or a watcher.',
        { '{{cause}}': by('cause', perMinute('purges_total')) },
        { stacked: true },
      ),
      graph(
        'Time until a purge is done',
        's',
        'From the purge to its end, when no gateway can answer with what it dropped. No value where there was none.',
        shares(by('le', rate('purge_seconds_bucket'))),
        { noValue: 'No purge' },
      ),
      graph(
        'Purges pending',
        'short',
        'Scopes whose purge Redis has not confirmed. The gateway tries again twice a second.',
        { '{{instance}}': of('purges_owed') },
      ),
      graph(
        'Age of the oldest epoch in use',
        's',
        'How long ago a gateway has read from Redis which entries are true. It stays below cache.lease while Redis answers; 0 without Redis.',
        { '{{instance}}': of('epoch_age_seconds') },
      ),
      graph(
        'Entries swept out of Redis',
        'cpm',
        'Entries that a purge had made unreachable, and that were dropped to give back their memory.',
        { swept: sum(perMinute('entries_swept_total')) },
      ),
    ],
  ],
  [
    'Does the engine keep up?',
    [
      graph(
        'Requests at the engine',
        'short',
        'Requests that the engine works on, and what limits.concurrency allows of them. If both are equal for long, queries wait.',
        { 'at the engine': sum(of('engine_requests')), limit: sum(of('engine_requests_limit')) },
      ),
      graph(
        'Requests that wait for the engine',
        'short',
        'The queue, and what limits.queue allows of it. When it is full, the gateway answers 503 (overloaded).',
        { waiting: sum(of('engine_queue')), limit: sum(of('engine_queue_limit')) },
      ),
      graph(
        'Failures of the engine, by reason',
        'cpm',
        'Requests that the engine did not answer: it could not be reached, did not answer in time, refused the login of the gateway.',
        { '{{reason}}': by('reason', perMinute('engine_failures_total')) },
        { stacked: true },
      ),
      graph(
        'Engine time a second, by project',
        's',
        'Seconds that the engine worked in each second, for users and for the warm-up.',
        { '{{project}}': by('project', rate('engine_seconds_total', PROJECT)) },
        { stacked: true, noValue: 'None' },
      ),
      graph(
        'Shared questions',
        'short',
        'Requests at the engine whose answer others may share, and requests that wait for such an answer.',
        { 'at the engine': sum(of('flights')), waiting: sum(of('flight_waiters')) },
      ),
      graph(
        'Slow queries shared with other gateways',
        'cpm',
        'How waiting for one another ended: led asked the engine for all, joined took that answer, gave-up asked by itself. Only with Redis.',
        { '{{end}}': by('end', perMinute('shared_flights_total')) },
        { stacked: true },
      ),
    ],
  ],
  [
    'Is there enough memory?',
    [
      graph(
        'Memory tier',
        'bytes',
        'Bytes of the answers in memory, and what cache.memory allows.',
        { entries: sum(of('memory_bytes')), limit: sum(of('memory_limit_bytes')) },
      ),
      graph(
        'Entries in memory',
        'short',
        'Answers in the memory of each gateway.',
        { '{{instance}}': of('memory_entries') },
        { stacked: true },
      ),
      graph(
        'Entries that gave way',
        'cpm',
        'Entries of the memory tier that made room for others. Many of them beside few hits: raise cache.memory.',
        { evictions: sum(perMinute('memory_evictions_total')) },
      ),
      graph(
        'Bodies under way, by use',
        'bytes',
        'Memory of requests and answers that are under way, beside the memory tier, and what limits.in_flight allows.',
        {
          '{{use}}': by('use', of('in_flight_bytes')),
          limit: sum(of('in_flight_limit_bytes')),
        },
        { stacked: true, width: 12 },
      ),
      graph(
        'Requests that wait for memory, or for their login',
        'short',
        'memory: they cannot be read until others have ended; raise limits.in_flight. login: as many passwords are compared at one time as there are cores (LoginsWait in docs/RUNBOOK.md). Look at what lasts.',
        { memory: sum(of('in_flight_queue')), login: sum(of('logins_waiting')) },
        { width: 12 },
      ),
    ],
  ],
  [
    'Does Redis work?',
    [
      graph(
        'Failed operations of Redis',
        'cpm',
        'What Redis did not do, by operation. The gateway goes on without it; what it cannot know for certain, it asks of the engine.',
        { '{{operation}}': by('operation', perMinute('redis_failures_total')) },
        { stacked: true },
      ),
      graph(
        'Entries that did not check out',
        'cpm',
        'Values in Redis that were damaged, sealed by another key, or put there by others. Each was taken for a miss.',
        { '{{why}}': by('why', perMinute('entries_rejected_total')) },
        { stacked: true },
      ),
      graph(
        'Not set as a purge needs it',
        'short',
        'How many settings of Redis are not as a purge needs them. GET /health/ready and the console say which; docs/PURGE.md says why.',
        { '{{instance}}': of('redis_conditions') },
      ),
    ],
  ],
  [
    'Is the cache filled again, and are changes seen?',
    [
      graph(
        'Queries without a user, by result',
        'cpm',
        'What became of queries that the gateway asked by itself: after a purge (warm-up), and shortly before the end of their ttl (ahead).',
        {
          'warm-up: {{result}}': by('result', perMinute('warm_queries_total')),
          'ahead: {{result}}': by('result', perMinute('refreshes_total')),
        },
        { stacked: true, width: 6 },
      ),
      graph(
        'Runs of the warm-up, by end',
        'cpm',
        'whole: everything was asked. Otherwise what cut it short, such as failures of the engine, or another purge.',
        { '{{end}}': by('end', perMinute('warm_runs_total')) },
        { stacked: true, width: 6 },
      ),
      graph(
        'Engine time of the warm-up a second',
        's',
        'Seconds that the engine worked for the warm-up in each second; warm.budget limits it.',
        { 'warm-up': sum(rate('warm_engine_seconds_total')) },
        { width: 6 },
      ),
      graph(
        'What the warm-up was good for',
        'cpm',
        'Entries that it filled and a user hit, and those that were dropped before: if most are, warm fewer queries.',
        {
          hit: sum(perMinute('warmed_hits_total')),
          wasted: sum(perMinute('warmed_wasted_total')),
        },
        { width: 6 },
      ),
      timeline(
        'Watched projects',
        'blind: the source by which the project is watched did not answer three times in a row, so that no change is purged.',
        { '{{project}}': `max by (project) (${of('watch_blind', PROJECT)})` },
        ['seeing', 'blind'],
        1,
        { small: true, noValue: 'No project is watched' },
      ),
      graph(
        'Since a watched source answered',
        's',
        'Seconds since the watched source of a project last answered any gateway.',
        { '{{project}}': `max by (project) (${of('watch_age_seconds', PROJECT)})` },
        { noValue: 'No project is watched' },
      ),
      graph(
        'Calls of hooks',
        'cpm',
        'By hook and result. refused: a wrong secret or login, or a project that is not of the hook; then nothing is purged.',
        { '{{hook}}, {{result}}': by('hook, result', perMinute('hook_calls_total')) },
        { stacked: true, noValue: 'No hook was called' },
      ),
    ],
  ],
  [
    'What else is asked, and by whom?',
    [
      graph(
        'Requests of the API, by operation',
        'reqps',
        'Reads and changes of roles and datasets.',
        { '{{operation}}': by('operation', rate('api_requests_total')) },
        { stacked: true, noValue: 'None' },
      ),
      graph(
        'Requests of the API, by status',
        'reqps',
        'From 400 on the request was refused, from 500 on the storage or the gateway failed.',
        { '{{status}}': by('status', rate('api_requests_total')) },
        { stacked: true, noValue: 'None' },
      ),
      graph(
        'Time of requests of the API',
        's',
        'From the head of the request to the end of the answer. No value where there was none.',
        shares(by('le', rate('api_seconds_bucket'))),
        { noValue: 'None' },
      ),
      graph(
        'Refused logins, by reason',
        'cpm',
        'rejected: a wrong name or password. throttled: too many of them. The lines login-refused in the log name the addresses.',
        { '{{reason}}': by('reason', perMinute('logins_refused_total')) },
        { stacked: true },
      ),
      graph(
        'Open connections',
        'short',
        'Connections of clients, and what limits.connections allows of them.',
        { open: sum(of('connections')), limit: sum(of('connections_limit')) },
      ),
      graph(
        'Connections that the gateway closed',
        'cpm',
        'Before their clients did, because limits.connections was reached. Where it happens often, raise it, or see who opens so many.',
        { '{{why}}': by('why', perMinute('connections_closed_total')) },
        { stacked: true },
      ),
    ],
  ],
  [
    'How are the processes?',
    [
      graph(
        'Memory of each gateway',
        'bytes',
        'Resident memory; with workers that of all of them together.',
        { '{{instance}}': of('process_resident_memory_bytes') },
      ),
      graph(
        'JavaScript heap of each gateway',
        'bytes',
        'Memory of JavaScript in use. Bodies of answers lie outside of it.',
        { '{{instance}}': of('nodejs_heap_size_used_bytes') },
      ),
      graph(
        'Cores in use',
        'short',
        'Seconds of processor time a second. One process can use little more than one; workers use more.',
        { '{{instance}}': rate('process_cpu_seconds_total') },
      ),
      graph(
        'Delays of the event loop',
        's',
        'How long a process did nothing else, at most. All requests of that process waited so long.',
        { '{{instance}}': of('nodejs_eventloop_lag_max_seconds') },
      ),
      graph(
        'Open files and sockets',
        'short',
        'Of each gateway, and how many the system allows the one that may open fewest.',
        {
          '{{instance}}': of('process_open_fds'),
          limit: `min(${of('process_max_fds')})`,
        },
      ),
      graph(
        'Processes',
        'short',
        'Processes that told their figures, and how many there should be (limit). If they are fewer for long, a worker hangs or ends again and again; the log says why.',
        { told: sum(of('workers')), limit: sum(of('workers_configured')) },
      ),
    ],
  ],
];

// The whole.

const COLUMNS = 24;

/** Gives the panels their places: one beside the other, as many as fit. */
function placed(): Plain<Panel | RowPanel>[] {
  const all: Plain<Panel | RowPanel>[] = [];
  let y = 0;
  for (const [title, drawn] of ROWS) {
    const line = { x: 0, y, w: COLUMNS, h: 1 };
    const id = all.length + 1;
    all.push({ id, type: 'row', title, collapsed: false, panels: [], gridPos: line });
    y += 1;
    let x = 0;
    let tallest = 0;
    for (const { width: w, height: h, panel } of drawn) {
      if (x + w > COLUMNS) {
        x = 0;
        y += tallest;
        tallest = 0;
      }
      all.push({ id: all.length + 1, ...panel, gridPos: { x, y, w, h } });
      x += w;
      tallest = Math.max(tallest, h);
    }
    y += tallest;
  }
  return all;
}

/** A variable with the values of a label, of which all are chosen at first. */
const labelVariable = (name: string, label: string, metric: string, description: string) => {
  const query = `label_values(${metric}, ${name})`;
  return {
    name,
    label,
    description,
    type: 'query' as const,
    datasource: DATASOURCE,
    query: { query, refId: name },
    // At the start, and when the time that is shown changes.
    refresh: 2 as const,
    sort: 1 as const,
    multi: true,
    includeAll: true,
    // Series without this label too.
    allValue: '.*',
    current: { text: 'All', value: '$__all' },
  };
};

/** A mark over all panels where the expression has a value. */
const mark = (
  name: string,
  iconColor: string,
  enable: boolean,
  expr: string,
  titleFormat: string,
) => ({
  name,
  iconColor,
  enable,
  datasource: DATASOURCE,
  target: { refId: 'A', datasource: DATASOURCE, editorMode: 'code', expr, range: true },
  titleFormat,
});

/** The text of deploy/grafana/mdx-gateway.json. */
export function renderDashboard(): string {
  const dashboard: Plain<Dashboard> = {
    // Grafana gives it one.
    id: null,
    uid: 'mdx-gateway',
    title: 'MDX gateway',
    description: 'What the gateways do, what they save, and what they lack.',
    tags: ['mdx-gateway'],
    // Of Grafana 11; newer ones read it too.
    schemaVersion: 39,
    editable: true,
    graphTooltip: 1,
    refresh: '30s',
    time: { from: 'now-3h', to: 'now' },
    timezone: 'browser',
    annotations: {
      list: [
        mark(
          'Restarts',
          'red',
          true,
          // What only grows begins at 0 again; with workers the time of the start is not told.
          `resets(${of('process_cpu_seconds_total')}[$__rate_interval]) > 0`,
          'Restart of {{instance}}',
        ),
        mark(
          'Purges',
          'blue',
          false,
          `${by('cause', `increase(${of('purges_total')}[$__rate_interval])`)} > 0`,
          'Purge: {{cause}}',
        ),
      ],
    },
    templating: {
      list: [
        {
          name: 'datasource',
          label: 'Prometheus',
          type: 'datasource',
          query: 'prometheus',
          refresh: 1,
        },
        labelVariable(
          'instance',
          'Gateway',
          'mdx_gateway_build_info',
          'Whose figures are shown; by default those of all gateways together.',
        ),
        labelVariable(
          'project',
          'Project',
          'mdx_gateway_xmla_requests_total',
          'Only for panels of figures that are counted by project.',
        ),
      ],
    },
    panels: placed(),
  };
  return `${JSON.stringify(dashboard, undefined, 2)}\n`;
}

if (import.meta.main) writeFileSync(FILE, renderDashboard());
