import type { Entries, Requests, Statistics } from './json.ts';
import { link, type Page, type PageView, type Sources, type Words } from './page.ts';
import {
  code,
  col,
  type Column,
  facts,
  Field,
  figure,
  meaningOf,
  outcomeIn,
  submitted,
  table,
  time,
  ways,
} from './parts.tsx';
import { count, duration, percent, plural, size } from '../../../common/words.ts';

type Digest = Statistics['digests'][number];
type Recent = Requests['requests'][number];

const PATH = '/console/queries';
/** Rows that /admin tells without `limit`, and how far it tells them. */
const PAGE_SIZE = 100;
const LAST_OFFSET = 10_000;

type View = Pick<Page, 'view'> & { readonly sources: Sources };

const queries: View = {
  sources: { statistics: ['sort', 'project', 'offset'] },
  view: (view) => (
    <>
      {filter(view, [['project', 'Project']])}
      {view.show<Statistics>('statistics', ({ digests, total, gateways, complete }) => (
        <>
          {list(view, 'Queries by what they cost', digests, DIGESTS, total, 'cost')}
          <p class="hint">
            Of {plural(gateways, 'gateway')}
            {!complete && '; some did not answer'}. Sums lose half of their value in three days.
          </p>
        </>
      ))}
    </>
  ),
};

const FILTERS = [
  ['user', 'User'],
  ['project', 'Project'],
  ['outcome', 'Outcome'],
  ['reason', 'Reason'],
  ['until', 'Until'],
  ['slower', 'At least ms'],
] as const;

const requests: View = {
  sources: { requests: [...FILTERS.map(([name]) => name), 'offset'] },
  view: (view) => (
    <>
      {filter(view, FILTERS)}
      {requestTable(view, 'Latest requests, the newest first')}
    </>
  ),
};

const entries: View = {
  sources: { entries: ['sort', 'offset'] },
  view: (view) =>
    view.show<Entries>('entries', ({ entries, total, complete }) => (
      <>
        {list(view, 'Entries in the memory of this gateway', entries, ENTRIES, total, 'hits')}
        <p class="hint">
          An entry that a purge made unreachable is listed until it is swept up.
          {!complete && ' Some processes did not answer.'}
        </p>
      </>
    )),
};

const oneQuery: View = {
  sources: { statistics: ['digest'], requests: ['digest', 'offset'] },
  view: (view) => (
    <>
      <h2>Query {code(view.query.get('digest') ?? '')}</h2>
      {view.show<Statistics>('statistics', ({ digests: [row] }) =>
        row === undefined ? (
          <p class="notice">
            There are no figures: this query was not asked, or gave way to others.
          </p>
        ) : (
          <>
            {facts(DIGESTS.slice(1).map(({ title, cell }) => [title, cell(row)]))}
            {statement(view, row)}
          </>
        ),
      )}
      {requestTable(view, 'Its latest requests')}
    </>
  ),
};

const oneRequest: View = {
  sources: { requests: ['id', 'until'], reasons: [] },
  view: (view) =>
    view.show<Requests>('requests', ({ requests: [row] }) =>
      row === undefined ? (
        <p class="notice">This request is no longer remembered. The log has it.</p>
      ) : (
        <>
          <h2>Request {code(row.id)}</h2>
          <p>{whereTimeWent(row)}</p>
          <p>{reasonInWords(view, row)}</p>
          {facts(REQUESTS.map(({ title, cell }) => [title, cell(row)]))}
        </>
      ),
    ),
};

const LISTS = [
  ['', 'Heaviest queries', queries],
  ['requests', 'Latest requests', requests],
  ['entries', 'Entries in memory', entries],
] as const;

function viewOf(query: URLSearchParams): View {
  if (query.get('id')) return oneRequest;
  if (query.get('digest')) return oneQuery;
  return LISTS.find(([name]) => name === query.get('view'))?.[2] ?? queries;
}

export const queriesPage: Page = {
  path: PATH,
  title: 'Queries',
  isFor: ({ view }) => view,
  sources: (query) => viewOf(query).sources,
  view(view) {
    const current = viewOf(view.query);
    const lists = LISTS.map(
      ([name, title, list]) => [link(PATH, { view: name }), title, list === current] as const,
    );
    return (
      <>
        {lists.some(([, , isHere]) => isHere) && ways('Views', lists)}
        {current.view(view)}
      </>
    );
  },
};

export const digestLink = (digest: string) =>
  digest === '' ? 'not understood' : <a href={link(PATH, { digest })}>{digest.slice(0, 10)}</a>;
export const projectOf = (project: string, { catalogs }: { readonly catalogs: string }) =>
  project || catalogs;
export const seconds = (figure: number) => duration(figure * 1000);
/** Past its ttl an entry is only good while the engine is away. */
const endsIn = (rest: number) => (rest > 0 ? seconds(rest) : `ended ${seconds(-rest)} ago`);

const address = (query: URLSearchParams, changes: Words): string =>
  link(PATH, { ...Object.fromEntries(query), ...changes });

/** Shows a part of all rows, and the ways to the others. @param usual the default order */
function list<Row>(
  { query }: PageView,
  caption: string,
  rows: readonly Row[],
  columns: readonly Column<Row>[],
  total: number,
  usual?: string,
) {
  const sorted = {
    by: query.get('sort') ?? usual,
    href: (sort: string) => address(query, { sort, offset: '' }),
  };
  const offset = Number(query.get('offset') ?? 0);
  const end = offset + rows.length;
  const last = Math.min(total, LAST_OFFSET + PAGE_SIZE);
  const to = (start: number) => address(query, { offset: start > 0 ? `${start}` : '' });
  return (
    <>
      {table(caption, rows, columns, 'None.', sorted)}
      <nav class="row" aria-label="Further rows">
        {offset > 0 && <a href={to(offset - PAGE_SIZE)}>Previous</a>}
        <span>
          {end === offset ? 'None' : `${count(offset + 1)} to ${count(end)}`} of {count(total)}
        </span>
        {end < last && <a href={to(offset + PAGE_SIZE)}>Next</a>}
      </nav>
    </>
  );
}

const EXCERPT = 120;
/** Characters that are kept of a statement; the rest of a longer one is not known. */
const CUT = 2_000;

const DIGESTS: readonly Column<Digest>[] = [
  col('Query', 'digest', digestLink, 'cost'),
  col('What', 'subject', (subject, { project, catalogs, cubes, text = '' }) => (
    <>
      {subject}{' '}
      <small>{[project, catalogs, cubes].filter((text) => text !== '').join(' · ')}</small>
      {text !== '' && <code class="excerpt">{text.slice(0, EXCERPT)}</code>}
    </>
  )),
  figure('Asks', 'asks', count, 'asks'),
  figure('Hit ratio', 'hits', (hits, { asks }) => percent(asks > 0 ? hits / asks : null)),
  figure('Engine, each', 'engine_ms', duration, 'engine'),
  figure('Engine, longest', 'engine_max_ms', duration),
  figure('Engine, spent', 'uncached_ms', duration, 'uncached'),
  figure(
    'In vain',
    'failed_ms',
    (ms, { failed_asks: asks }) => ms > 0 && `${duration(ms)} (${count(asks)})`,
  ),
  figure('Saved', 'saved_ms', duration, 'saved'),
  figure('Bytes', 'bytes', size),
  figure('Users', 'users', (users) => (users === 20 ? '20+' : count(users))),
  col('Last asked', 'last_asked', time, 'last'),
  col('Last outcome', 'last_outcome', (outcome, { last_reason: reason }) =>
    outcomeIn(outcome, { reason }),
  ),
];

function statement({ rights }: PageView, { digest, text }: Digest) {
  if (text === undefined) {
    return <p class="hint">Its text is not kept (statistics.text), or you may not see it.</p>;
  }
  return (
    <>
      <pre class="statement" tabIndex={0}>
        {text}
      </pre>
      {rights.administer && text.length < CUT && (
        <p>
          <a href={link('/console/why', { digest })}>Why is it answered as it is?</a>
        </p>
      )}
    </>
  );
}

const requestTable = (view: PageView, caption: string) =>
  view.show<Requests>('requests', ({ requests, total, complete }) => (
    <>
      {list(view, caption, requests, REQUESTS, total)}
      {!complete && <p class="hint">Some processes did not answer.</p>}
    </>
  ));

const REQUESTS: readonly Column<Recent>[] = [
  col('At', 'at', (at, { id }) => <a href={link(PATH, { id, until: at })}>{time(at)}</a>),
  col('User', 'user'),
  col('Client', 'client'),
  col('Project', 'project', projectOf),
  col('Cubes', 'cubes'),
  col('Query', 'digest', digestLink),
  col('Outcome', 'outcome', outcomeIn),
  figure('Status', 'status'),
  figure('Took', 'ms', duration),
  figure('Waited', 'waited_ms', (waited) => duration(waited || null)),
  figure('Engine', 'engine_ms', (engine) => duration(engine || null)),
  figure('Bytes', 'bytes', size),
];

function whereTimeWent({ ms, waited_ms: waited, engine_ms: engine }: Recent): string {
  const parts = [
    [engine, 'at the engine'],
    [waited, 'waiting for the engine or another request'],
    [ms - waited - engine, 'in the gateway and on the way'],
  ] as const;
  const told = parts
    .filter(([part]) => part >= 0.05)
    .map(([part, where]) => `${duration(part)} ${where}`);
  return `It took ${duration(ms)}${told.length === 0 ? '' : `: ${told.join(', ')}`}.`;
}

const OUTCOMES: Readonly<Record<string, string>> = {
  hit: 'It was a hit.',
  miss: 'It was not in the cache, so the engine was asked.',
  bypass: 'It went to the engine, past the cache.',
  gateway: 'The gateway answered it by itself.',
};

function reasonInWords(view: PageView, { outcome, reason, stored }: Recent): string {
  const kept = stored === true ? 'Its answer was stored.' : '';
  return [OUTCOMES[outcome], meaningOf(view, outcome, reason), kept].join(' ');
}

const ENTRIES: readonly Column<Entries['entries'][number]>[] = [
  col('Query', 'digest', digestLink),
  col('Project', 'project', projectOf),
  col('Cubes', 'cubes'),
  figure('Hits', 'hits', count, 'hits'),
  figure('Bytes', 'bytes', size, 'bytes'),
  figure('Age', 'age', seconds, 'age'),
  figure('Ends in', 'rest', endsIn, 'rest'),
];

/** Goes to the address that says what was typed: addresses can be shared. */
function filter({ query }: PageView, fields: readonly (readonly [name: string, title: string])[]) {
  const onSubmit = submitted(({ until, ...typed }) => {
    // People type times of their own clock.
    const last = until && new Date(until).toISOString();
    location.assign(address(query, { ...typed, until: last, offset: '' }));
  });
  return (
    <form class="row" onSubmit={onSubmit}>
      {fields.map(([name, label]) => field(name, label, query.get(name) ?? ''))}
      <button type="submit">Filter</button>
    </form>
  );
}

function field(name: string, label: string, value: string) {
  const given = { name, label };
  if (name === 'until') {
    return <Field {...given} type="datetime-local" step={1} defaultValue={localTime(value)} />;
  }
  if (name !== 'outcome') return <Field {...given} defaultValue={value} />;
  return (
    <label>
      {label}
      <select name={name} defaultValue={value}>
        <option value="">all</option>
        {Object.keys(OUTCOMES).map((outcome) => (
          <option>{outcome}</option>
        ))}
      </select>
    </label>
  );
}

/** Time as a field holds it; '' where there is none, and at the server, which has another clock. */
function localTime(iso: string): string {
  const at = new Date(iso);
  if (typeof document === 'undefined' || Number.isNaN(at.getTime())) return '';
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}
