import { Chart } from './chart.tsx';
import type { Overview } from './json.ts';
import { link, type Page, type PageView } from './page.ts';
import { col, type Column, facts, figure, meaningOf, outcomeIn, table, time } from './parts.tsx';
import { count, duration, percent, plural } from '../../../common/words.ts';

export const overviewPage: Page = {
  path: '/console',
  title: 'Overview',
  isFor: ({ view }) => view,
  sources: () => ({ overview: [], reasons: [] }),
  view: (view) =>
    view.show<Overview>('overview', (overview) => (
      <>
        <section aria-label="Findings">{findingsIn(overview.findings)}</section>
        {figuresIn(overview)}
        {hourIn(overview)}
        {table('Projects in the last hour', overview.projects, PROJECTS, 'No project was asked.')}
        {reasonsIn(view, overview.reasons)}
      </>
    )),
};

const SEVERITIES = { problem: 'Problem', warning: 'Warning', note: 'Note' } as const;

function findingsIn(findings: Overview['findings']) {
  if (findings.length === 0) {
    return <p class="finding good">Nothing to do: the gateway has found no problem.</p>;
  }
  return findings.map(({ severity, text, cause, remedy }) => (
    <article class={`finding ${severity}`}>
      <h2>
        <span class="severity">{SEVERITIES[severity]}</span> {text}
      </h2>
      <p>
        {cause} <b>What to do:</b> {remedy}
      </p>
    </article>
  ));
}

const both = (times: Overview['hour']['hit_ms']) =>
  times === null ? '–' : `${duration(times.p50)} / ${duration(times.p95)}`;

function figuresIn({ hour, totals, gateways, complete }: Overview) {
  const queries = plural(hour.hits + hour.misses, 'query', 'queries');
  const spent = duration(hour.engine_ms + hour.saved_ms);
  const saved = `${duration(totals.saved_ms)} over days, fading`;
  const rows = [
    ['Hit ratio', percent(hour.hit_ratio), `of ${queries}`],
    ['Hit ratio by engine time', percent(hour.saved_ratio), `of ${spent}`],
    ['Engine time saved', duration(hour.saved_ms), saved],
    ['Hits, p50 / p95', both(hour.hit_ms), 'in that hour'],
    ['Misses, p50 / p95', both(hour.miss_ms), 'in that hour'],
    ['Refreshed', count(hour.refreshed), 'before their ttl was over'],
    ['Past the cache', count(hour.bypasses), `and ${count(hour.by_gateway)} by the gateway itself`],
  ] as const;
  const figures = rows.map(
    ([name, value, of]) => [name, [value, ' ', <small>{of}</small>]] as const,
  );
  return (
    <section aria-label="Figures">
      {facts(figures, 'figures')}
      <p class="hint">
        The last hour, of {plural(gateways, 'gateway')}
        {!complete && '; some did not answer, so the figures are too low'}.
      </p>
    </section>
  );
}

function hourIn({ hour, minutes, purges }: Overview) {
  const active = minutes.filter((one) => one.hits + one.misses + one.bypasses > 0).toReversed();
  return (
    <section class="hour">
      <h2>Answers in the last hour</h2>
      <Chart {...{ hour, minutes, purges }} />
      <details>
        <summary>The same as a table</summary>
        {table('Answers by minute', active, MINUTES, 'Nothing was asked.')}
      </details>
    </section>
  );
}

const MINUTES: readonly Column<Overview['minutes'][number]>[] = [
  col('Minute', 'at', time),
  figure('Hits', 'hits', count),
  figure('Misses', 'misses', count),
  figure('Past the cache', 'bypasses', count),
];

const PROJECTS: readonly Column<Overview['projects'][number]>[] = [
  col('Project', 'project', (project) =>
    project === '' ? 'none named' : <a href={link('/console/queries', { project })}>{project}</a>,
  ),
  figure('Requests', 'asks', count),
  figure('Hit ratio', 'hit_ratio', percent),
  figure('Saved', 'saved_ms', duration),
  figure('Engine time', 'engine_ms', duration),
  figure('Entries in memory', 'entries', count),
  col('Last asked', 'last_asked', time),
  col('Last purge', 'last_purge', (purge) =>
    purge === null ? (
      'none known'
    ) : (
      <>
        {time(purge.at)} by {purge.principal}
        {purge.scope === 'everything' && ' (everything)'}
        {purge.result !== 'cleared' && <span class="problem"> {purge.result}</span>}
      </>
    ),
  ),
];

function reasonsIn(view: PageView, reasons: Overview['reasons']) {
  const columns: readonly Column<(typeof reasons)[number]>[] = [
    col('Outcome', 'outcome', outcomeIn),
    figure('Requests', 'count', count),
    col('Meaning', 'reason', (reason, { outcome }) => meaningOf(view, outcome, reason)),
  ];
  return table('Answers in the last hour by reason', reasons, columns, 'Nothing was asked.');
}
