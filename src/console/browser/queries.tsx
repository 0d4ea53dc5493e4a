/** The page Queries: the heaviest queries, the latest requests, the entries in memory, and each of them by itself. */
import type { Entries, Requests, Statistics } from './json.ts';
import { address, link, type Page, type PageView, target } from './page.ts';
import {
  col,
  type Column,
  figure,
  Facts,
  meaningOf,
  Outcome,
  PAGE_SIZE,
  Paging,
  REASONS,
  Shown,
  Table,
  Time,
} from './parts.tsx';
import { count, duration, percent, size } from '../../common/words.ts';

type Digest = Statistics['digests'][number];
type Recent = Requests['requests'][number];

const PATH = '/console/queries';
const LIMIT = { limit: String(PAGE_SIZE) };
const VIEWS = [
  ['', 'Heaviest queries'],
  ['requests', 'Latest requests'],
  ['entries', 'Entries in memory'],
] as const;

export const queriesPage: Page = {
  path: PATH,
  title: 'Queries',
  isFor: ({ view }) => view,
  sources(query) {
    const digest = query.get('digest');
    if (query.get('id')) {
      return { requests: target('/admin/requests', query, ['id', 'until']), ...REASONS };
    }
    if (digest) {
      return {
        statistics: target('/admin/statistics', query, ['digest']),
        requests: target('/admin/requests', query, ['digest', 'offset'], LIMIT),
      };
    }
    const paged = ['limit', 'offset'];
    if (query.get('view') === 'requests') {
      const names = [...FILTERS.map(([name]) => name), ...paged];
      return { requests: target('/admin/requests', query, names, LIMIT) };
    }
    if (query.get('view') === 'entries') {
      return { entries: target('/admin/entries', query, ['sort', ...paged], LIMIT) };
    }
    return { statistics: target('/admin/statistics', query, ['sort', 'project', ...paged], LIMIT) };
  },
  view(view) {
    const { query } = view;
    if (query.get('id')) return <OneRequest view={view} />;
    if (query.get('digest')) return <OneQuery view={view} />;
    const shown = query.get('view') ?? '';
    return (
      <>
        <nav class="views" aria-label="Views">
          {VIEWS.map(([name, title]) => (
            <a
              key={name}
              href={link(PATH, { view: name })}
              aria-current={name === shown ? 'true' : undefined}
            >
              {title}
            </a>
          ))}
        </nav>
        {shown === 'requests' ? (
          <LatestRequests view={view} />
        ) : shown === 'entries' ? (
          <EntriesInMemory view={view} />
        ) : (
          <HeaviestQueries view={view} />
        )}
      </>
    );
  },
};

const byDigest = (digest: string) => link(PATH, { digest });
const DigestLink = ({ digest }: { digest: string }) =>
  digest === '' ? <>not understood</> : <a href={byDigest(digest)}>{digest.slice(0, 10)}</a>;

function sortedBy(view: PageView, usual: string) {
  const href = (sort: string) => address(PATH, view.query, { sort, offset: undefined });
  return { by: view.query.get('sort') ?? usual, href };
}

function HeaviestQueries({ view }: { view: PageView }) {
  return (
    <>
      <Filter view={view} fields={[['project', 'Project']]} />
      <Shown of={view.source<Statistics>('statistics')}>
        {({ digests, total, gateways, complete }) => (
          <>
            <Table
              caption="Queries by what they cost"
              rows={digests}
              columns={DIGESTS}
              none="No query was asked."
              sorted={sortedBy(view, 'cost')}
            />
            <Paging view={view} path={PATH} total={total} shown={digests.length} />
            <p class="hint">
              Of {count(gateways)} {gateways === 1 ? 'gateway' : 'gateways'}
              {!complete && '; some did not answer'}. Sums fade by half in three days.
            </p>
          </>
        )}
      </Shown>
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
  col('Last outcome', ({ last_outcome, last_reason }) => (
    <Outcome outcome={last_outcome} reason={last_reason} />
  )),
];

function OneQuery({ view }: { view: PageView }) {
  const digest = view.query.get('digest') ?? '';
  return (
    <>
      <h2>
        Query <code>{digest}</code>
      </h2>
      <Shown of={view.source<Statistics>('statistics')}>
        {({ digests: [row] }) =>
          row === undefined ? (
            <p class="notice">It has no figures: it was not asked, or gave way to others.</p>
          ) : (
            <>
              <Facts
                rows={DIGESTS.slice(1).map(({ title, cell }) => [title, cell(row)] as const)}
              />
              {row.text === undefined ? (
                <p class="hint">Its text is not kept (statistics.text), or not for you to see.</p>
              ) : (
                <>
                  <pre class="statement" tabIndex={0}>
                    {row.text}
                  </pre>
                  {view.rights.administer && row.text.length < CUT && (
                    <p>
                      <a href={link('/console/why', { digest })}>Why is it answered as it is?</a>
                    </p>
                  )}
                </>
              )}
            </>
          )
        }
      </Shown>
      <RequestTable view={view} caption="Its latest requests" />
    </>
  );
}

/** The words of the address that /admin/requests knows, and how they are asked for. */
const FILTERS = [
  ['user', 'User'],
  ['project', 'Project'],
  ['outcome', 'Outcome'],
  ['reason', 'Reason'],
  ['until', 'Until'],
  ['slower', 'At least ms'],
] as const;

function LatestRequests({ view }: { view: PageView }) {
  return (
    <>
      <Filter view={view} fields={FILTERS} />
      <RequestTable view={view} caption="Latest requests, the newest first" />
    </>
  );
}

function RequestTable({ view, caption }: { view: PageView; caption: string }) {
  return (
    <Shown of={view.source<Requests>('requests')}>
      {({ requests, total, complete }) => (
        <>
          <Table caption={caption} rows={requests} columns={REQUESTS} none="No such request." />
          <Paging view={view} path={PATH} total={total} shown={requests.length} />
          {!complete && <p class="hint">Some processes did not answer.</p>}
        </>
      )}
    </Shown>
  );
}

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
  col('Outcome', ({ outcome, reason }) => <Outcome outcome={outcome} reason={reason} />),
  figure('Status', ({ status }) => status),
  figure('Took', ({ ms }) => duration(ms)),
  figure('Waited', ({ waited_ms }) => duration(waited_ms || null)),
  figure('Engine', ({ engine_ms }) => duration(engine_ms || null)),
  figure('Bytes', ({ bytes }) => size(bytes)),
];

function OneRequest({ view }: { view: PageView }) {
  return (
    <Shown of={view.source<Requests>('requests')}>
      {({ requests: [row] }) =>
        row === undefined ? (
          <p class="notice">It is not remembered any more. The log has it.</p>
        ) : (
          <>
            <h2>
              Request <code>{row.id}</code>
            </h2>
            <p class="lead">{whereTimeWent(row)}</p>
            <p>{reasonInWords(view, row)}</p>
            <Facts rows={REQUESTS.map(({ title, cell }) => [title, cell(row)] as const)} />
          </>
        )
      }
    </Shown>
  );
}

/** One sentence. */
function whereTimeWent({ ms, waited_ms: waited, engine_ms: engine }: Recent): string {
  const rest = Math.max(0, ms - waited - engine);
  const parts = [
    [engine, 'at the engine'],
    [waited, 'waiting for the engine or another request'],
    [rest, 'in the gateway and on the way'],
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

function EntriesInMemory({ view }: { view: PageView }) {
  return (
    <Shown of={view.source<Entries>('entries')}>
      {({ entries, total, complete }) => (
        <>
          <Table
            caption="Entries in the memory of this gateway"
            rows={entries}
            columns={ENTRIES}
            none="Nothing is in memory."
            sorted={sortedBy(view, 'hits')}
          />
          <Paging view={view} path={PATH} total={total} shown={entries.length} />
          <p class="hint">
            An entry that a purge made unreachable stands here until it is swept up.
            {!complete && ' Some processes did not answer.'}
          </p>
        </>
      )}
    </Shown>
  );
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

/** Goes to the address that says what was typed: pages are addresses, that can be shared. */
function Filter({
  view,
  fields,
}: {
  view: PageView;
  fields: readonly (readonly [name: string, title: string])[];
}) {
  const onSubmit = (event: SubmitEvent) => {
    event.preventDefault();
    const typed = new FormData(event.currentTarget as HTMLFormElement);
    const changes = fields.map(
      ([name]) => [name, readField(name, String(typed.get(name)))] as const,
    );
    location.assign(
      address(PATH, view.query, { ...Object.fromEntries(changes), offset: undefined }),
    );
  };
  return (
    <form class="filter" onSubmit={onSubmit}>
      {fields.map(([name, title]) => (
        <label key={name}>
          {title}
          <Field name={name} value={view.query.get(name) ?? ''} />
        </label>
      ))}
      <button type="submit">Filter</button>
    </form>
  );
}

function Field({ name, value }: { name: string; value: string }) {
  if (name === 'until') {
    return <input name={name} type="datetime-local" step={1} defaultValue={localTime(value)} />;
  }
  if (name !== 'outcome') return <input name={name} defaultValue={value} />;
  return (
    <select name={name} defaultValue={value}>
      <option value="">all</option>
      {Object.keys(OUTCOMES).map((outcome) => (
        <option key={outcome}>{outcome}</option>
      ))}
    </select>
  );
}

/** As such a field holds it; '' where there is none, and at the server, which does not know the clock of the person. */
function localTime(iso: string): string {
  const at = new Date(iso);
  if (typeof document === 'undefined' || Number.isNaN(at.getTime())) return '';
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}

/** What a person types is a time of his own clock. */
const readField = (name: string, text: string) =>
  name === 'until' && text !== '' ? new Date(text).toISOString() : text.trim();
