import { Component } from 'preact';
import type { Stale } from '../../../common/events.ts';
import { explainInWords, type Explanation } from '../../../http/explain-words.ts';
import { duration, size } from '../../../common/words.ts';
import { type Answer, call, problemOf } from './call.ts';
import type { Comparison, Purges, Statistics, Status } from './json.ts';
import { link, type Page, type PageView } from './page.ts';
import { code, col, facts, Field, meaningOf, moment, submitted, table } from './parts.tsx';

export const whyPage: Page = {
  path: '/console/why',
  title: 'Why',
  isFor: ({ administer }) => administer,
  sources: (query) => ({
    purges: [],
    reasons: [],
    ...(query.has('digest') && { statistics: ['digest'] }),
  }),
  view: (view) => <Why view={view} />,
};

interface WhyState {
  readonly explained?: Answer;
  readonly compared?: Answer | undefined;
  readonly asks?: boolean;
}

class Why extends Component<{ view: PageView }, WhyState> {
  readonly ask = submitted(async ({ act, xmla = '', user = '', ...client }) => {
    const isComparison = act === 'compare';
    const asks = (now: boolean) => (isComparison ? { asks: now } : {});
    this.setState({ ...asks(true), compared: undefined });
    const answer = await call(link(`/admin/${act}`, isComparison ? client : { ...client, user }), {
      method: 'POST',
      // It counts as the client whose request it is.
      headers: { accept: '*/*' },
      body: xmla,
    });
    this.setState({ ...asks(false), [isComparison ? 'compared' : 'explained']: answer });
    this.props.view.refresh();
  });

  override render({ view }: { view: PageView }, { explained, compared, asks = false }: WhyState) {
    const status = view.told<Status>('status');
    const [row] = view.told<Statistics>('statistics')?.digests ?? [];
    const envelope = row?.text === undefined ? '' : envelopeOf(row.text, row.catalogs);
    return (
      <>
        <p>
          Paste the XMLA request of a client, and see how the gateway would answer it now. Nothing
          changes.
        </p>
        <form onSubmit={this.ask}>
          <label>
            XMLA request
            <textarea name="xmla" rows={12} required spellcheck={false} defaultValue={envelope} />
          </label>
          {envelope !== '' && (
            <p class="hint">
              Made from the statement alone. Properties and headers of its client count too.
            </p>
          )}
          <div class="row">
            <Field label="Project of the path" name="project" defaultValue={row?.project ?? ''} />
            <Field label="Asked by" name="user" placeholder={status?.user} />
            <Field label="User-Agent of the client" name="user_agent" />
            <Field label="Content-Type" name="content_type" defaultValue="text/xml" />
            <button name="act" value="explain">
              Explain
            </button>
            <button name="act" value="compare" disabled={asks}>
              {asks ? 'Asking the engine …' : 'Ask the engine now and compare'}
            </button>
          </div>
          <p class="hint">
            Compares the engine's answer to you ({status?.user}) with the one from the cache.
            Nothing is stored.
          </p>
        </form>
        <div aria-live="polite">
          {compared && resultOf(view, compared, comparisonOf)}
          {explained && resultOf(view, explained, explanationOf)}
        </div>
      </>
    );
  }
}

const resultOf = (view: PageView, answer: Answer, show: typeof explanationOf) =>
  answer.status === 200 ? (
    show(view, answer.json)
  ) : (
    <p class="finding problem">{problemOf(answer)}</p>
  );

function explanationOf(view: PageView, told: unknown) {
  const explanation = told as Explanation;
  const { purges = [] } = view.told<Purges>('purges') ?? {};
  const { parts = [] } = explanation.cache ?? {};
  const purgeOf = (scope: string) => {
    const purge = purges.find((one) => covers(scope, one.scope));
    return purge ? ` (last purge ${moment(purge.at)} by ${purge.principal})` : '';
  };
  const meaning = (outcome: string, word: string) => meaningOf(view, outcome, word);
  const [decision = '', ...lines] = explainInWords(explanation, meaning, purgeOf);
  const rows = lines.map((line) => line.split(/: (.*)/s));
  return (
    <section>
      <h2>{decision}</h2>
      {facts(rows.map(([name = '', value]) => [name, value]))}
      <details>
        <summary>The key, part by part</summary>
        {table(
          'Parts of the key, as digests',
          parts,
          [col('Part', 'name'), col('Digest', 'digest', code)],
          'It has no key.',
        )}
      </details>
    </section>
  );
}

/** Every purge renews what belongs to no project. Names fold nearly as the gateway folds them. */
const covers = (scope: string, purged: Stale) =>
  scope === 'unassigned' ||
  (typeof purged === 'string'
    ? scope === purged
    : scope.toLowerCase() === `project:${purged.project.toLowerCase()}`);

const VERDICTS: Readonly<Record<string, readonly [severity: string, text: string]>> = {
  same: ['good', 'The cache says what the engine says.'],
  stale: [
    'problem',
    'The engine no longer says what the cache says. Purge the project, and have its load call clearCache. Or the engine answers you differently from the user whose query filled the entry.',
  ],
  unstable: ['warning', 'The engine gives another answer each time.'],
  purged: ['note', 'The entry was purged meanwhile. Ask again.'],
  'no-entry': ['note', 'The cache has nothing for you. Ask the query once, then compare.'],
  'not-cached': ['note', 'The cache does not answer such a request.'],
  failed: ['warning', 'The engine gave no answer that could be compared.'],
};

function comparisonOf(view: PageView, told: unknown) {
  const { verdict, why, entry, engine } = told as Comparison;
  const [severity, text] = VERDICTS[verdict] ?? ['note', verdict];
  const facts = [
    entry && `Cache: ${size(entry.bytes)}, ${duration(entry.age_ms)} old (${entry.source}).`,
    ...engine.map(({ ms, bytes }) => `Engine: ${size(bytes)} in ${duration(ms)}.`),
  ];
  const meanings = ['miss', 'gateway'].map((of) => why && meaningOf(view, of, why));
  return (
    <section class={`finding ${severity}`}>
      <h2>{text}</h2>
      <p>{[why, ...meanings, ...facts].filter(Boolean).join(' ')}</p>
    </section>
  );
}

const escaped = (text: string) =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');

/** Makes a plain request for a statement. What a client sends beside it is in the key too. */
function envelopeOf(statement: string, catalogs: string): string {
  const [catalog = ''] = catalogs.split(', ');
  return `<Envelope xmlns="http://schemas.xmlsoap.org/soap/envelope/"><Body>
<Execute xmlns="urn:schemas-microsoft-com:xml-analysis">
<Command><Statement>${escaped(statement)}</Statement></Command>
<Properties><PropertyList><Catalog>${escaped(catalog)}</Catalog><Format>Multidimensional</Format></PropertyList></Properties>
</Execute></Body></Envelope>`;
}
