/** The page Queries: the heaviest queries, the latest requests, the entries in memory, and each of them by itself. */
import type { Entries, Requests, Statistics } from './json.ts';
import { address, link, type Page, type PageView, target } from './page.ts';
import {
  col,
  type Column,
  facts,
  Field,
  figure,
  meaningOf,
  outcomeIn,
  REASONS,
  submitted,
  table,
  Time,
  ways,
} from './parts.tsx';
import { count, duration, percent, plural, size } from '../../common/words.ts';

type Digest = Statistics['digests'][number];
type Recent = Requests['requests'][number];

const PATH = '/console/queries';
/** As many rows as /admin tells without `limit`, and as far as it tells them. */
const PAGE_SIZE = 100;
const LAST_OFFSET = 10_000;

/** What the page shows under some of its addresses. */
type View = Pick<Page, 'sources' | 'view'>;

const queries: View = {
  sources: (query) => ({
    statistics: target('/admin/statistics', query, ['sort', 'project', 'offset']),
  }),
  view: (view) => (
    <>
      <Filter view={view} fields={[['project', 'Project']]} />
      {view.show<Statistics>('statistics', ({ digests, total, gateways, complete }) => (
        <>
          {list(view, 'Queries by what they cost', digests, DIGESTS, total, 'cost')}
          <p class="hint">
            Of {plural(gateways, 'gateway')}
            {!complete && '; some did not answer'}. Sums fade by half in three days.
          </p>
        </>
      ))}
    </>
  ),
};

/** The words of the address that /admin/requests knows, and how they are asked for. */
const FILTERS = [
  ['user', 'User'],
  ['project', 'Project'],
  ['outcome', 'Outcome'],
  ['reason', 'Reason'],
  ['until', 'Until'],
  ['slower', 'At least ms'],
] as const;

const requests: View = {
  sources(query) {
    const names = [...FILTERS.map(([name]) => name), 'offset'];
    return { requests: target('/admin/requests', query, names) };
  },
  view: (view) => (
    <>
      <Filter view={view} fields={FILTERS} />
      {requestTable(view, 'Latest requests, the newest first')}
    </>
  ),
};

const entries: View = {
  sources: (query) => ({ entries: target('/admin/entries', query, ['sort', 'offset']) }),
  view: (view) =>
    view.show<Entries>('entries', ({ entries, total, complete }) => (
      <>
        {list(view, 'Entries in the memory of this gateway', entries, ENTRIES, total, 'hits')}
        <p class="hint">
          An entry that a purge made unreachable stands here until it is swept up.
          {!complete && ' Some processes did not answer.'}
        </p>
      </>
    )),
};

const oneQuery: View = {
  sources: (query) => ({
    statistics: target('/admin/statistics', query, ['digest']),
    requests: target('/admin/requests', query, ['digest', 'offset']),
  }),
  view: (view) => (
    <>
      <h2>
        Query <code>{view.query.get('digest')}</code>
      </h2>
      {view.show<Statistics>('statistics', ({ digests: [row] }) =>
        row === undefined ? (
          <p class="notice">It has no figures: it was not asked, or gave way to others.</p>
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
  sources: (query) => ({ requests: target('/admin/requests', query, ['id', 'until']), ...REASONS }),
  view: (view) =>
    view.show<Requests>('requests', ({ requests: [row] }) =>
      row === undefined ? (
        <p class="notice">It is not remembered any more. The log has it.</p>
      ) : (
        <>
          <h2>
            Request <code>{row.id}</code>
          </h2>
          <p class="lead">{whereTimeWent(row)}</p>
          <p>{reasonInWords(view, row)}</p>
          {facts(REQUESTS.map(({ title, cell }) => [title, cell(row)]))}
        </>
      ),
    ),
};

/** By the word `view` of the address. */
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
  sources: (query) => viewOf(query).sources(query),
  view(view) {
    const current = viewOf(view.query);
    const lists = LISTS.map(
      ([name, title, list]) => [link(PATH, { view: name }), title, list === current] as const,
    );
    return (
      <>
        {lists.some(([, , isHere]) => isHere) && ways('Views', lists, 'views')}
        {current.view(view)}
      </>
    );
  },
};

export const DigestLink = ({ digest }: { digest: string }) =>
  digest === '' ? <>not understood</> : <a href={link(PATH, { digest })}>{digest.slice(0, 10)}</a>;

/**
 * A part of all rows, and the ways to the others.
 * @param usual the word by which they are sorted where the address has none
 */
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
    href: (sort: string) => address(PATH, query, { sort, offset: undefined }),
  };
  const offset = Number(query.get('offset') ?? 0);
  const end = offset + rows.length;
  const to = (start: number) =>
    address(PATH, query, { offset: start > 0 ? `${start}` : undefined });
  return (
    <>
      {table(caption, rows, columns, 'None.', sorted)}
      <nav class="paging" aria-label="Further rows">
        {offset > 0 && <a href={to(offset - PAGE_SIZE)}>Newer or larger</a>}
        <span>
          {end === offset ? 'None' : `${count(offset + 1)} to ${count(end)}`} of {count(total)}
        </span>
        {end < Math.min(total, LAST_OFFSET + PAGE_SIZE) && (
          <a href={to(offset + PAGE_SIZE)}>Further</a>
        )}
      </nav>
    </>
  );
}

/** Of a statement, to tell queries apart (characters). */
const EXCERPT = 120;
/** Longer ones are kept so far (characters): the rest of such a statement is not known. */
const CUT = 2_000;

const DIGESTS: readonly Column<Digest>[] = [
  col('Query', ({ digest }) => <DigestLink digest={digest} />, 'cost'),
  col('What', ({ subject, project, catalogs, cubes, text = '' }) => (
    <>
      {subject}{' '}
      <small>{[project, catalogs, cubes].filter((text) => text !== '').join(' · ')}</small>
      {text !== '' && <code class="excerpt">{text.slice(0, EXCERPT)}</code>}
    </>
  )),
  figure('Asks', ({ asks }) => count(asks), 'asks'),
  figure('Hit ratio', ({ asks, hits }) => percent(asks > 0 ? hits / asks : null)),
  figure('Engine, each', ({ engine_ms }) => duration(engine_ms), 'engine'),
  figure('Engine, longest', ({ engine_max_ms }) => duration(engine_max_ms)),
  figure('Engine, spent', ({ uncached_ms }) => duration(uncached_ms), 'uncached'),
  figure('Saved', ({ saved_ms }) => duration(saved_ms), 'saved'),
  figure('Bytes', ({ bytes }) => size(bytes)),
  figure('Users', ({ users }) => (users === 20 ? '20+' : count(users))),
  col('Last asked', ({ last_asked }) => <Time at={last_asked} />, 'last'),
  col('Last outcome', ({ last_outcome, last_reason }) => outcomeIn(last_outcome, last_reason)),
];

function statement({ rights }: PageView, { digest, text }: Digest) {
  if (text === undefined) {
    return <p class="hint">Its text is not kept (statistics.text), or not for you to see.</p>;
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
  col('At', ({ at, id }) => (
    <a href={link(PATH, { id, until: at })}>
      <Time at={at} />
    </a>
  )),
  col('User', ({ user }) => user),
  col('Client', ({ client }) => client),
  col('Project', ({ project, catalogs }) => project || catalogs),
  col('Cubes', ({ cubes }) => cubes),
  col('Query', ({ digest }) => <DigestLink digest={digest} />),
  col('Outcome', ({ outcome, reason }) => outcomeIn(outcome, reason)),
  figure('Status', ({ status }) => status),
  figure('Took', ({ ms }) => duration(ms)),
  figure('Waited', ({ waited_ms }) => duration(waited_ms || null)),
  figure('Engine', ({ engine_ms }) => duration(engine_ms || null)),
  figure('Bytes', ({ bytes }) => size(bytes)),
];

/** One sentence. */
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

const seconds = (figure: number) => duration(figure * 1000);
const ENTRIES: readonly Column<Entries['entries'][number]>[] = [
  col('Query', ({ digest }) => <DigestLink digest={digest} />),
  col('Project', ({ project, catalogs }) => project || catalogs),
  col('Cubes', ({ cubes }) => cubes),
  figure('Hits', ({ hits }) => count(hits), 'hits'),
  figure('Bytes', ({ bytes }) => size(bytes), 'bytes'),
  figure('Age', ({ age }) => seconds(age), 'age'),
  figure('Ends in', ({ rest }) => seconds(rest), 'rest'),
];

type FilterProps = { view: PageView; fields: readonly (readonly [name: string, title: string])[] };
/** Goes to the address that says what was typed: pages are addresses, that can be shared. */
function Filter({ view: { query }, fields }: FilterProps) {
  const onSubmit = submitted(({ until, ...typed }) => {
    // What a person types is a time of his own clock.
    const last = until && new Date(until).toISOString();
    location.assign(address(PATH, query, { ...typed, until: last, offset: '' }));
  });
  return (
    <form class="filter" onSubmit={onSubmit}>
      {fields.map(([name, label]) => field(name, label, query.get(name) ?? ''))}
      <button type="submit">Filter</button>
    </form>
  );
}

function field(name: string, label: string, value: string) {
  const given = { key: name, name, label };
  if (name === 'until') {
    return <Field {...given} type="datetime-local" step={1} defaultValue={localTime(value)} />;
  }
  if (name !== 'outcome') return <Field {...given} defaultValue={value} />;
  return (
    <label key={name}>
      {label}
      <select name={name} defaultValue={value}>
        <option value="">all</option>
        {Object.keys(OUTCOMES).map((outcome) => (
          <option key={outcome}>{outcome}</option>
        ))}
      </select>
    </label>
  );
}

/** As such a field holds it; '' where there is none, and at the server, which does not know the clock of the person. */
function localTime(iso: string): string {
  const at = new Date(iso);
  if (typeof document === 'undefined' || Number.isNaN(at.getTime())) return '';
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}
