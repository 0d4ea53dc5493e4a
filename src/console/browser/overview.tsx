/** The page Overview: what is wrong, and how well the cache does. */
import { Chart } from './chart.tsx';
import type { Finding, Overview, ProjectFigures, Quantiles } from './json.ts';
import { address, type Page, type PageView } from './page.ts';
import { type Column, meaningOf, Outcome, REASONS, Shown, Table, Time } from './parts.tsx';
import { count, duration, percent, plural, scopeName } from './words.ts';

export const overviewPage: Page = {
  path: '/console',
  title: 'Overview',
  isFor: ({ view }) => view,
  sources: () => ({ overview: '/admin/overview', ...REASONS }),
  view: (view) => (
    <Shown of={view.source<Overview>('overview')}>
      {(overview) => (
        <>
          <Findings findings={overview.findings} />
          <Figures overview={overview} />
          <Hour overview={overview} />
          <Table
            caption="Projects in the last hour"
            rows={overview.projects}
            columns={PROJECTS}
            none="No project was asked."
          />
          <Table
            caption="Answers in the last hour by reason"
            rows={overview.reasons}
            columns={reasonColumns(view)}
            none="Nothing was asked."
          />
        </>
      )}
    </Shown>
  ),
};

const SEVERITIES = { problem: 'Problem', warning: 'Warning', note: 'Note' } as const;

function Findings({ findings }: { findings: readonly Finding[] }) {
  return (
    <section aria-label="Findings">
      {findings.length === 0 && (
        <p class="finding good">Nothing to do: all that the gateway watches is in order.</p>
      )}
      {findings.map(({ kind, severity, text, cause, remedy }) => (
        <article key={kind + text} class={`finding ${severity}`}>
          <h2>
            <span class="severity">{SEVERITIES[severity]}</span> {text}
          </h2>
          <p>
            {cause} <b>What to do:</b> {remedy}
          </p>
        </article>
      ))}
    </section>
  );
}

const both = (times: Quantiles | null) =>
  times === null ? '–' : `${duration(times.p50)} / ${duration(times.p95)}`;

function Figures({ overview: { hour, totals, gateways, complete } }: { overview: Overview }) {
  const queries = hour.hits + hour.misses;
  const spent = hour.engine_ms + hour.saved_ms;
  const rows = [
    ['Hit ratio', percent(hour.hit_ratio), `of ${plural(queries, 'query', 'queries')}`],
    ['Hit ratio by engine time', percent(hour.saved_ratio), `of ${duration(spent)}`],
    ['Engine time saved', duration(hour.saved_ms), `${duration(totals.saved_ms)} in the last days`],
    ['Hits, p50 / p95', both(hour.hit_ms), 'of the latest requests'],
    ['Misses, p50 / p95', both(hour.miss_ms), 'of the latest requests'],
    ['Past the cache', count(hour.bypasses), `and ${count(hour.by_gateway)} by the gateway itself`],
  ] as const;
  return (
    <section aria-label="Figures">
      <dl class="figures">
        {rows.map(([name, value, of]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>
              {value} <small>{of}</small>
            </dd>
          </div>
        ))}
      </dl>
      <p class="hint">
        The last hour, of {plural(gateways, 'gateway')}
        {!complete && '; some did not answer, so that the figures are too small'}.
      </p>
    </section>
  );
}

function Hour({ overview }: { overview: Overview }) {
  const purges = overview.purges.map(({ at, scope }) => ({ at, name: scopeName(scope) }));
  return (
    <section class="hour">
      <h2>Answers in the last hour</h2>
      <Chart minutes={overview.minutes} purges={purges} />
      <details>
        <summary>The same as a table</summary>
        <Table
          caption="Answers by minute"
          rows={overview.minutes
            .toReversed()
            .filter((one) => one.hits + one.misses + one.bypasses > 0)}
          columns={MINUTES}
          none="Nothing was asked."
        />
      </details>
    </section>
  );
}

const MINUTES: readonly Column<Overview['minutes'][number]>[] = [
  { title: 'Minute', cell: ({ at }) => <Time at={at} /> },
  { title: 'Hits', figure: true, cell: ({ hits }) => count(hits) },
  { title: 'Misses', figure: true, cell: ({ misses }) => count(misses) },
  { title: 'Past the cache', figure: true, cell: ({ bypasses }) => count(bypasses) },
];

const PROJECTS: readonly Column<ProjectFigures>[] = [
  {
    title: 'Project',
    cell: ({ project }) =>
      project === '' ? (
        'none named'
      ) : (
        <a href={address('/console/queries', new URLSearchParams({ project }), {})}>{project}</a>
      ),
  },
  { title: 'Requests', figure: true, cell: ({ asks }) => count(asks) },
  { title: 'Hit ratio', figure: true, cell: ({ hit_ratio }) => percent(hit_ratio) },
  { title: 'Saved', figure: true, cell: ({ saved_ms }) => duration(saved_ms) },
  { title: 'Engine time', figure: true, cell: ({ engine_ms }) => duration(engine_ms) },
  { title: 'Entries in memory', figure: true, cell: ({ entries }) => count(entries) },
  { title: 'Last asked', cell: ({ last_asked }) => <Time at={last_asked} /> },
  {
    title: 'Last purge',
    cell: ({ last_purge: purge }) =>
      purge === null ? (
        'none known'
      ) : (
        <>
          <Time at={purge.at} /> by {purge.principal}
          {purge.scope === 'everything' && ' (everything)'}
        </>
      ),
  },
];

const reasonColumns = (view: PageView): readonly Column<Overview['reasons'][number]>[] => [
  {
    title: 'Outcome',
    cell: ({ outcome, reason }) => <Outcome outcome={outcome} reason={reason} />,
  },
  { title: 'Requests', figure: true, cell: ({ count: requests }) => count(requests) },
  { title: 'Meaning', cell: ({ outcome, reason }) => meaningOf(view, outcome, reason) },
];
