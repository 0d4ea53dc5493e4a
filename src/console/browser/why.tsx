/** The page Why: what becomes of a request, why, and whether the cache says what the engine says. */
import { Component, createRef } from 'preact';
import { call, problemOf } from './call.ts';
import type { Comparison, Explanation, Purges, Statistics, Status } from './json.ts';
import { type Page, type PageView, target } from './page.ts';
import { type Column, Facts, meaningOf, REASONS, Table, Time } from './parts.tsx';
import { count, duration, scopeName, size } from './words.ts';

export const whyPage: Page = {
  path: '/console/why',
  title: 'Why',
  isFor: ({ administer }) => administer,
  sources: (query) => ({
    purges: '/admin/purges',
    ...REASONS,
    ...(query.has('digest') && { statistics: target('/admin/statistics', query, ['digest']) }),
  }),
  view: (view) => <Why view={view} />,
};

/** What a part of the key means where two queries differ in it. */
const DIFFERENCES: Readonly<Record<string, string>> = {
  epochs: 'it was purged since',
  identity: 'it is of another user or role, or shared in another way',
  session: 'it was asked in a session of another kind',
  properties: 'its properties differ',
  statement: 'its statement differs',
  'User-Agent': 'another client program asked it',
};

interface WhyState {
  readonly explained?: Explanation | string | undefined;
  readonly compared?: Comparison | string | undefined;
  readonly asks?: boolean;
}

class Why extends Component<{ view: PageView }, WhyState> {
  readonly form = createRef<HTMLFormElement>();

  /** The answer, or what went wrong. */
  async ask<T>(path: string, names: readonly string[]): Promise<T | string> {
    const typed = new FormData(this.form.current ?? undefined);
    const words = new URLSearchParams(
      [...typed].map(([name, value]) => [name, String(value).trim()]),
    );
    // These count as those of the client whose request it is.
    const headers = { 'content-type': 'text/xml', accept: '*/*' };
    const body = String(typed.get('xmla'));
    const answer = await call(target(path, words, names), { method: 'POST', headers, body });
    return answer.status === 200 ? (answer.json as T) : problemOf(answer);
  }

  readonly explain = async (event: Event) => {
    event.preventDefault();
    const explained = await this.ask<Explanation>('/admin/explain', ['project', 'user']);
    this.setState({ explained, compared: undefined });
  };

  readonly compare = async () => {
    this.setState({ asks: true });
    const compared = await this.ask<Comparison>('/admin/compare', ['project']);
    this.setState({ compared, asks: false });
    this.props.view.refresh();
  };

  override render({ view }: { view: PageView }, { explained, compared, asks = false }: WhyState) {
    const status = told<Status>(view, 'status');
    const [row] = (view.query.has('digest') && told<Statistics>(view, 'statistics')?.digests) || [];
    const envelope = row?.text === undefined ? '' : envelopeOf(row.text, row.catalogs);
    return (
      <>
        <p class="lead">
          Paste the XMLA request of a client, and see what would become of it now. Nothing is sent
          to the engine, and nothing changes.
        </p>
        <noscript>
          <p class="notice">
            This page needs JavaScript. On the command line: <code>mdx-gateway explain FILE</code>.
          </p>
        </noscript>
        <form ref={this.form} class="ask" onSubmit={(event) => void this.explain(event)}>
          <label>
            XMLA request
            <textarea name="xmla" rows={12} required spellcheck={false} defaultValue={envelope} />
          </label>
          <div class="filter">
            <label>
              Project of the path
              <input name="project" defaultValue={row?.project ?? ''} />
            </label>
            <label>
              Asked by
              <input name="user" placeholder={status?.user} />
            </label>
            <button type="submit">Explain</button>
            <button type="button" disabled={asks} onClick={() => void this.compare()}>
              {asks ? 'The engine is asked …' : 'Ask the engine now and compare'}
            </button>
          </div>
          <p class="hint">
            To compare, the engine is asked with your own login ({status?.user}), past the cache;
            nothing is stored. It is compared with what you would be answered from the cache.
          </p>
        </form>
        <div aria-live="polite">
          {compared !== undefined && <Compared comparison={compared} />}
          {explained !== undefined && <Explained view={view} explanation={explained} />}
        </div>
      </>
    );
  }
}

function told<T>(view: PageView, name: string): T | undefined {
  const source = view.source<T>(name);
  return 'told' in source ? source.told : undefined;
}

const DECISIONS: Readonly<Record<string, string>> = {
  cacheable: 'It is looked up in the cache.',
  bypass: 'It goes to the engine, past the cache.',
  refused: 'The gateway answers it with a Fault.',
};

const has = (entry: unknown) => typeof entry === 'object' && entry !== null;

function Explained({ view, explanation }: { view: PageView; explanation: Explanation | string }) {
  if (typeof explanation === 'string') return <p class="finding problem">{explanation}</p>;
  const { classification, cache, user, project } = explanation;
  const { decision, reason = '', why, subject, catalogs, share, ttl_ms } = classification;
  const outcome = decision === 'refused' ? 'gateway' : decision;
  const isHit = cache !== undefined && (has(cache.memory) || has(cache.redis));
  return (
    <section class="explained">
      <h2>
        {DECISIONS[decision]} {cache && (isHit ? 'It would be a hit.' : 'It would be a miss.')}
      </h2>
      {reason !== '' && (
        <p>
          <code>{reason}</code>: {meaningOf(view, outcome, reason)} {why}
        </p>
      )}
      <Facts
        rows={[
          ['Request', `${subject ?? 'not understood'} by ${user}`],
          ['Project of the path', project ?? 'none'],
          ['Catalogs', catalogs?.join(', ') || 'none'],
          ...(share === undefined ? [] : [['Shared by', share] as const]),
          ...(ttl_ms === undefined ? [] : [['Kept for', duration(ttl_ms)] as const]),
        ]}
      />
      {cache && <InCache view={view} cache={cache} />}
    </section>
  );
}

type CacheFacts = NonNullable<Explanation['cache']>;
type Entry = CacheFacts['memory'];

const entryInWords = (entry: Entry | string) => {
  if (typeof entry === 'string') return entry === 'off' ? 'not used' : entry;
  if (entry === null) return 'no entry';
  const rest = entry.ttl_ms > 0 ? `ends in ${duration(entry.ttl_ms)}` : 'too old';
  return `${size(entry.bytes)}, made ${duration(entry.age_ms)} ago, ${rest}; the engine took ${duration(entry.engine_ms)}`;
};

function InCache({ view, cache }: { view: PageView; cache: CacheFacts }) {
  const purges = told<Purges>(view, 'purges');
  const { memory, redis, flight, not_stored, nearest, epochs, parts } = cache;
  return (
    <>
      <Facts
        rows={[
          ['Memory', entryInWords(memory)],
          ['Redis', entryInWords(redis)],
          [
            'Under way',
            flight ? 'the engine is being asked for it; it would wait for that answer' : 'no',
          ],
          ...(not_stored === null
            ? []
            : [
                [
                  'Not stored the last time',
                  `${not_stored}: ${meaningOf(view, 'miss', not_stored)}`,
                ] as const,
              ]),
          ...(nearest === null
            ? []
            : [
                [
                  'Nearest entry',
                  `made ${duration(nearest.age_ms)} ago; differs in ${nearest.differs
                    .map((part) => (DIFFERENCES[part] ? `${part} (${DIFFERENCES[part]})` : part))
                    .join(', ')}`,
                ] as const,
              ]),
        ]}
      />
      {epochs === 'unknown' ? (
        <p class="notice">Its epochs are not known, since Redis cannot be reached.</p>
      ) : (
        <Table
          caption="A purge of any of these drops it"
          rows={epochs}
          columns={epochColumns(purges)}
          none=""
        />
      )}
      <details>
        <summary>The key, part by part</summary>
        <Table caption="Parts of the key, as digests" rows={parts} columns={PARTS} none="" />
      </details>
    </>
  );
}

const epochColumns = (
  purges: Purges | undefined,
): readonly Column<{ scope: string; token: string }>[] => [
  { title: 'Scope', cell: ({ scope }) => scope },
  { title: 'Epoch', cell: ({ token }) => <code>{token}</code> },
  {
    title: 'Last purge',
    cell({ scope }) {
      const purge = purges?.purges.find(({ scope: purged }) => covers(scope, scopeName(purged)));
      if (purge === undefined) return 'none known';
      return (
        <>
          <Time at={purge.at} /> by {purge.principal}, {purge.cause}
        </>
      );
    },
  },
];

/** Every purge renews what belongs to no project. Names of projects are compared as the gateway folds them: nearly. */
const covers = (scope: string, purged: string) =>
  scope === 'unassigned' ||
  scope === purged ||
  scope.toLowerCase() === `project:${purged.toLowerCase()}`;

const PARTS: readonly Column<CacheFacts['parts'][number]>[] = [
  { title: 'Part', cell: ({ name }) => name },
  { title: 'Digest', cell: ({ digest }) => <code>{digest}</code> },
];

const VERDICTS: Readonly<Record<string, readonly [severity: string, text: string]>> = {
  same: ['good', 'The cache says what the engine says.'],
  stale: [
    'problem',
    'The cache holds an older answer than the engine gives. The data changed without a purge: purge the project, and have its load call clearCache.',
  ],
  unstable: [
    'warning',
    'The engine gives another answer each time, so that nothing can be said of the one in the cache.',
  ],
  purged: ['note', 'It was purged while the engine was asked. Ask again.'],
  'no-entry': [
    'note',
    'Nothing is in the cache for you to compare with. Ask the query once, then compare.',
  ],
  'not-cached': ['note', 'It is not looked up in the cache, so there is nothing to compare.'],
  failed: ['warning', 'The engine gave no answer that could be compared.'],
};

function Compared({ comparison }: { comparison: Comparison | string }) {
  if (typeof comparison === 'string') return <p class="finding problem">{comparison}</p>;
  const { verdict, why, entry, engine } = comparison;
  const [severity, text] = VERDICTS[verdict] ?? ['note', verdict];
  const asked = engine.map(({ ms, bytes }) => `${duration(ms)}, ${size(bytes)}`).join('; ');
  return (
    <section class={`finding ${severity}`}>
      <h2>{text}</h2>
      <p>
        {why}
        {entry &&
          ` In the cache: ${size(entry.bytes)}, made ${duration(entry.age_ms)} ago (${entry.source}).`}
        {engine.length > 0 &&
          ` The engine was asked ${engine.length === 1 ? 'once' : `${count(engine.length)} times`}: ${asked}.`}
      </p>
    </section>
  );
}

const escaped = (text: string) =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');

/** A request that asks a statement as plainly as it can be asked: what a client sends beside it, the key holds too. */
function envelopeOf(statement: string, catalogs: string): string {
  const [catalog = ''] = catalogs.split(', ');
  return `<Envelope xmlns="http://schemas.xmlsoap.org/soap/envelope/"><Body>
<Execute xmlns="urn:schemas-microsoft-com:xml-analysis">
<Command><Statement>${escaped(statement)}</Statement></Command>
<Properties><PropertyList><Catalog>${escaped(catalog)}</Catalog><Format>Multidimensional</Format></PropertyList></Properties>
</Execute></Body></Envelope>`;
}
