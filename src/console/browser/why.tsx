/** The page Why: what becomes of a request, why, and whether the cache says what the engine says. */
import { Component, createRef } from 'preact';
import type { Stale } from '../../common/events.ts';
import { explainInWords, type Explanation } from '../explain-words.ts';
import { duration, size } from '../../common/words.ts';
import { call, problemOf } from './call.ts';
import type { Comparison, Purges, Statistics, Status } from './json.ts';
import { type Page, type PageView, target } from './page.ts';
import {
  col,
  type Column,
  facts,
  Field,
  meaningOf,
  moment,
  REASONS,
  table,
  toldOf,
} from './parts.tsx';

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

/** What counts of the client's request beside its body, as words of the query. */
const CLIENT = ['user_agent', 'content_type'];

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
    const words = new URLSearchParams();
    for (const [name, value] of typed) words.set(name, String(value).trim());
    // It counts as that of the client whose request it is.
    const headers = { accept: '*/*' };
    const body = String(typed.get('xmla'));
    const answer = await call(target(path, words, names), { method: 'POST', headers, body });
    return answer.status === 200 ? (answer.json as T) : problemOf(answer);
  }

  readonly explain = async (event: Event) => {
    event.preventDefault();
    const explained = await this.ask<Explanation>('/admin/explain', ['project', 'user', ...CLIENT]);
    this.setState({ explained, compared: undefined });
  };

  readonly compare = async () => {
    this.setState({ asks: true });
    const compared = await this.ask<Comparison>('/admin/compare', ['project', ...CLIENT]);
    this.setState({ compared, asks: false });
    this.props.view.refresh();
  };

  override render({ view }: { view: PageView }, { explained, compared, asks = false }: WhyState) {
    const status = toldOf(view.source<Status>('status'));
    const statistics = view.query.has('digest') && view.source<Statistics>('statistics');
    const [row] = (statistics && toldOf(statistics)?.digests) || [];
    const envelope = row?.text === undefined ? '' : envelopeOf(row.text, row.catalogs);
    return (
      <>
        <p class="lead">
          Paste the XMLA request of a client, and see what would become of it now. Nothing changes.
        </p>
        <form ref={this.form} class="ask" onSubmit={(event) => void this.explain(event)}>
          <label>
            XMLA request
            <textarea name="xmla" rows={12} required spellcheck={false} defaultValue={envelope} />
          </label>
          {envelope !== '' && (
            <p class="hint">
              Made of the statement alone: properties and headers of its client count, too.
            </p>
          )}
          <div class="filter">
            <Field label="Project of the path" name="project" defaultValue={row?.project ?? ''} />
            <Field label="Asked by" name="user" placeholder={status?.user} />
            <Field label="User-Agent of the client" name="user_agent" />
            <Field label="Content-Type" name="content_type" defaultValue="text/xml" />
            <button type="submit">Explain</button>
            <button type="button" disabled={asks} onClick={() => void this.compare()}>
              {asks ? 'The engine is asked …' : 'Ask the engine now and compare'}
            </button>
          </div>
          <p class="hint">
            Compared is what the engine tells you ({status?.user}) now with what the cache would;
            nothing is stored.
          </p>
        </form>
        <div aria-live="polite">
          {compared !== undefined && outcomeOf(view, compared)}
          {explained !== undefined && explanationOf(view, explained)}
        </div>
      </>
    );
  }
}

function explanationOf(view: PageView, explanation: Explanation | string) {
  if (typeof explanation === 'string') return <p class="finding problem">{explanation}</p>;
  const { purges = [] } = toldOf(view.source<Purges>('purges')) ?? {};
  const { parts = [] } = explanation.cache ?? {};
  const purgeOf = (scope: string) => {
    const purge = purges.find((one) => covers(scope, one.scope));
    return purge ? ` (last purge ${moment(purge.at)} by ${purge.principal})` : '';
  };
  const meaning = (outcome: string, word: string) => meaningOf(view, outcome, word);
  const [decision = '', ...lines] = explainInWords(explanation, meaning, purgeOf);
  const rows = lines.map((line) => line.split(/: (.*)/s));
  return (
    <section class="explained">
      <h2>{decision}</h2>
      {facts(rows.map(([name = '', value]) => [name, value]))}
      <details>
        <summary>The key, part by part</summary>
        {table('Parts of the key, as digests', parts, PARTS, 'It has no key.')}
      </details>
    </section>
  );
}

/** Every purge renews what belongs to no project. Names of projects are compared as the gateway folds them: nearly. */
const covers = (scope: string, purged: Stale) =>
  scope === 'unassigned' ||
  (typeof purged === 'string'
    ? scope === purged
    : scope.toLowerCase() === `project:${purged.project.toLowerCase()}`);

const PARTS: readonly Column<NonNullable<Explanation['cache']>['parts'][number]>[] = [
  col('Part', ({ name }) => name),
  col('Digest', ({ digest }) => <code>{digest}</code>),
];

const VERDICTS: Readonly<Record<string, readonly [severity: string, text: string]>> = {
  same: ['good', 'The cache says what the engine says.'],
  stale: [
    'problem',
    'The engine no longer says what the cache says: purge the project, and have its load call clearCache. Or it answers you differently from the user whose query filled the entry.',
  ],
  unstable: ['warning', 'The engine says something else each time.'],
  purged: ['note', 'It was purged meanwhile. Ask again.'],
  'no-entry': ['note', 'The cache has nothing for you. Ask the query once, then compare.'],
  'not-cached': ['note', 'It is not looked up in the cache.'],
  failed: ['warning', 'The engine gave no answer that could be compared.'],
};

function outcomeOf(view: PageView, comparison: Comparison | string) {
  if (typeof comparison === 'string') return <p class="finding problem">{comparison}</p>;
  const { verdict, why, entry, engine } = comparison;
  const [severity, text] = VERDICTS[verdict] ?? ['note', verdict];
  const facts = [
    entry && `Cache: ${size(entry.bytes)}, ${duration(entry.age_ms)} old (${entry.source}).`,
    ...engine.map(({ ms, bytes }) => `Engine: ${size(bytes)} in ${duration(ms)}.`),
  ];
  const meanings = ['bypass', 'miss', 'gateway'].map((of) => why && meaningOf(view, of, why));
  return (
    <section class={`finding ${severity}`}>
      <h2>{text}</h2>
      <p>{[why, ...meanings, ...facts].filter(Boolean).join(' ')}</p>
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
