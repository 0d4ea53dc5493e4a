/** The page Purges: drops what is cached, of everything or a project, and says who did. */
import { Component, createRef } from 'preact';
import { type Answer, call } from './call.ts';
import type { Purges, Status } from './json.ts';
import { type Page, type PageView, target } from './page.ts';
import { col, type Column, figure, PAGE_SIZE, Shown, Table, Time } from './parts.tsx';
import { count, duration, plural } from '../../common/words.ts';

const LIMIT = { limit: String(PAGE_SIZE) };

export const purgesPage: Page = {
  path: '/console/purges',
  title: 'Purges',
  isFor: () => true,
  sources: (query) => ({ purges: target('/admin/purges', query, ['limit'], LIMIT) }),
  view: (view) => (
    <>
      {view.rights.purge && <Purging view={view} />}
      <Shown of={view.source<Purges>('purges')}>
        {({ purges, complete }) => (
          <>
            <Table
              caption="The latest purges"
              rows={purges}
              columns={PURGES}
              none="Nothing was purged."
            />
            {!complete && (
              <p class="hint">Redis cannot be reached: these are of this gateway alone.</p>
            )}
          </>
        )}
      </Shown>
    </>
  ),
};

/** What is typed to confirm that everything is meant. */
const EVERYTHING = 'everything';

interface PurgingState {
  readonly project?: string;
  /** Undefined for everything. */
  readonly scope?: string | undefined;
  readonly typed?: string;
  readonly answer?: { readonly name: string; readonly got?: Answer };
}

class Purging extends Component<{ view: PageView }, PurgingState> {
  readonly dialog = createRef<HTMLDialogElement>();

  begin(scope: string | undefined): void {
    this.setState({ scope, typed: '' });
    this.dialog.current?.showModal();
  }

  async confirm(scope: string | undefined): Promise<void> {
    this.dialog.current?.close();
    const name = scope ?? EVERYTHING;
    this.setState({ answer: { name } });
    const path = scope === undefined ? '' : `/${encodeURIComponent(scope)}`;
    const got = await call(`/mdx/xmla${path}/clearCache`, { method: 'POST' });
    this.setState({ answer: { name, got } });
    this.props.view.refresh();
  }

  override render(
    { view }: { view: PageView },
    { project = '', scope, typed = '', answer }: PurgingState,
  ) {
    const name = scope ?? EVERYTHING;
    const submit = (event: Event) => {
      event.preventDefault();
      if (typed === name) void this.confirm(scope);
    };
    return (
      <section aria-label="Purge" class="acts">
        <form
          class="filter"
          onSubmit={(event) => {
            event.preventDefault();
            if (project.trim() !== '') this.begin(project.trim());
          }}
        >
          <label>
            Project
            <input
              required
              pattern="(?!\.{1,2}$).*"
              title="No project is called . or .."
              value={project}
              onInput={({ currentTarget }) => this.setState({ project: currentTarget.value })}
            />
          </label>
          <button type="submit">Purge this project …</button>
          <button type="button" class="danger" onClick={() => this.begin(undefined)}>
            Purge everything …
          </button>
        </form>
        <dialog ref={this.dialog} aria-labelledby="purge-title">
          <form onSubmit={submit}>
            <h2 id="purge-title">
              Purge {scope === undefined ? 'everything' : `the project ${scope}`}?
            </h2>
            <p>{concerned(view, scope)}</p>
            <label>
              <span>
                Type <b>{name}</b> to confirm
              </span>
              <input
                value={typed}
                autocomplete="off"
                spellcheck={false}
                onInput={({ currentTarget }) => this.setState({ typed: currentTarget.value })}
              />
            </label>
            <div class="buttons">
              <button type="button" onClick={() => this.dialog.current?.close()}>
                Cancel
              </button>
              <button type="submit" class="danger" disabled={typed !== name}>
                Purge
              </button>
            </div>
          </form>
        </dialog>
        <div role="status">{answer !== undefined && <Receipt {...answer} />}</div>
      </section>
    );
  }
}

/** What a purge drops, as far as this user may see that. */
function concerned(view: PageView, scope: string | undefined): string {
  const status = view.source<Status>('status');
  const entries =
    'told' in status ? plural(status.told.memory.entries, 'entry', 'entries') : 'entries';
  const first = 'The first request of each report asks the engine again.';
  return scope === undefined
    ? `All that is cached is dropped, on all gateways that share a Redis: here ${entries}. ${first}`
    : `What belongs to this project or to none is dropped, on all gateways that share a Redis. ${first}`;
}

interface Told {
  readonly id?: string;
  readonly known?: boolean;
  readonly replicas?: number;
  readonly waited?: number;
  readonly message?: string;
}

function Receipt({ name, got: answer }: NonNullable<PurgingState['answer']>) {
  if (answer === undefined) return <p class="finding note">Purging {name} …</p>;
  const { id, known, replicas = 0, waited = 0, message } = answer.json as Told;
  if (answer.status !== 200) {
    return (
      <p class="finding problem">
        {name} is not purged for certain. {message}
      </p>
    );
  }
  return (
    <p class={`finding ${known === false ? 'warning' : 'good'}`}>
      {name} is purged: no gateway answers from before any more. {plural(replicas, 'gateway')} told
      so; it took {duration(waited)}. Receipt <code>{id}</code>.
      {known === false && ' But this project was never asked for: its name may be misspelt.'}
    </p>
  );
}

const RESULTS: Readonly<Record<string, string>> = {
  cleared: 'purged',
  'engine-failed': 'purged, but an engine did not clear its own cache',
  owed: 'pending: Redis did not confirm it',
};
const CAUSES: Readonly<Record<string, string>> = {
  'clear-cache': 'clearCache',
  repeat: 'repeated clearCache',
  change: 'change of a dataset',
  statement: 'statement to the engine',
  hook: 'hook',
};

const PURGES: readonly Column<Purges['purges'][number]>[] = [
  col('At', ({ at }) => <Time at={at} />),
  col('What', ({ scope, known }) => (
    <>
      {scope === 'everything' ? <b>everything</b> : scope.project}
      {!known && <small class="problem"> not known</small>}
    </>
  )),
  col('By', ({ principal }) => principal),
  col('Cause', ({ cause }) => CAUSES[cause] ?? cause),
  col('Result', ({ result }) => (
    <span class={result === 'cleared' ? undefined : 'problem'}>{RESULTS[result] ?? result}</span>
  )),
  figure('Waited', ({ waited }) => duration(waited)),
  figure('Gateways', ({ replicas }) => count(replicas)),
  figure('Engine calls', ({ engine_calls }) => count(engine_calls)),
  col('Receipt', ({ id }) => <code>{id}</code>),
];
