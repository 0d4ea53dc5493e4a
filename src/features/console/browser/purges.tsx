import { Component, type ComponentChildren, createRef } from 'preact';
import type { PurgeOutcome } from '../../../cache/purge/purge.ts';
import { type Answer, call } from './call.ts';
import type { Purges, Status, Watches } from './json.ts';
import type { Page, PageView } from './page.ts';
import { code, col, type Column, Field, figure, marked, submitted, table, time } from './parts.tsx';
import { count, duration, plural } from '../../../common/words.ts';

export const purgesPage: Page = {
  path: '/console/purges',
  title: 'Purges',
  isFor: () => true,
  sources: () => ({ purges: [], watches: [] }),
  view: (view) => (
    <>
      {view.rights.purge && <Purging view={view} />}
      {view.show<Watches>('watches', ({ watches, hooks }) => (
        <>
          {watches.length > 0 && table('What is watched', watches, WATCHES, '')}
          {hooks.length > 0 && table('Hooks', hooks, HOOKS, '')}
        </>
      ))}
      {view.show<Purges>('purges', ({ purges, complete }) => (
        <>
          {table('The latest purges', purges, PURGES, 'Nothing was purged.')}
          {!complete && (
            <p class="hint">Redis cannot be reached: these are the purges of this gateway alone.</p>
          )}
        </>
      ))}
    </>
  ),
};

const EVERYTHING = 'everything';

interface PurgingState {
  /** Project to be purged; '' for everything. */
  readonly scope?: string;
  readonly typed?: string;
  readonly receipt?: ComponentChildren;
}

class Purging extends Component<{ view: PageView }, PurgingState> {
  readonly dialog = createRef<HTMLDialogElement>();

  begin(scope: string): void {
    this.setState({ scope, typed: '' });
    this.dialog.current?.showModal();
  }

  async purge(scope: string): Promise<void> {
    this.dialog.current?.close();
    const name = scope || EVERYTHING;
    this.setState({ receipt: <p class="finding note">Purging {name} …</p> });
    const path = scope && `/${encodeURIComponent(scope)}`;
    const answer = await call(`/mdx/xmla${path}/clearCache`, { method: 'POST' });
    this.setState({ receipt: receiptOf(name, answer) });
    this.props.view.refresh();
  }

  override render({ view }: { view: PageView }, { scope = '', typed, receipt }: PurgingState) {
    const name = scope || EVERYTHING;
    const choose = submitted(({ project }) => project && this.begin(project));
    const confirm = submitted(() => typed === name && this.purge(scope));
    return (
      <section aria-label="Purge">
        <form class="row" onSubmit={choose}>
          <Field
            label="Project"
            name="project"
            required
            pattern="(?!\.{1,2}$).*"
            title="No project is called . or .."
          />
          <button type="submit">Purge this project …</button>
          <button type="button" class="danger" onClick={() => this.begin('')}>
            Purge everything …
          </button>
        </form>
        <dialog ref={this.dialog} aria-labelledby="purge-title">
          <form onSubmit={confirm}>
            <h2 id="purge-title">Purge {scope === '' ? EVERYTHING : `the project ${scope}`}?</h2>
            <p>{concerned(view, scope)}</p>
            <Field
              label={
                <span>
                  Type <b>{name}</b> to confirm
                </span>
              }
              value={typed}
              autocomplete="off"
              spellcheck={false}
              onInput={({ currentTarget }) => this.setState({ typed: currentTarget.value })}
            />
            <div class="row">
              <button type="button" onClick={() => this.dialog.current?.close()}>
                Cancel
              </button>
              <button type="submit" class="danger" disabled={typed !== name}>
                Purge
              </button>
            </div>
          </form>
        </dialog>
        <div role="status">{receipt}</div>
      </section>
    );
  }
}

function concerned(view: PageView, scope: string): string {
  const { memory } = view.told<Status>('status') ?? {};
  const entries = memory ? plural(memory.entries, 'entry', 'entries') : 'entries';
  const first = 'The first request of each report asks the engine again.';
  return scope === ''
    ? `Drops everything that is cached, on all gateways that share a Redis: here ${entries}. ${first}`
    : `Drops the entries of this project and of no project, on all gateways that share a Redis. ${first}`;
}

type Told = Partial<Extract<PurgeOutcome, { ok: true }>['receipt']> & { message?: string };

function receiptOf(name: string, { status, json }: Answer) {
  const { id, known = true, replicas = 0, waited = 0, message } = json as Told;
  if (status !== 200) {
    return (
      <p class="finding problem">
        It is not certain that {name} is purged. {message}
      </p>
    );
  }
  return (
    <p class={`finding ${known ? 'good' : 'warning'}`}>
      {name} is purged: no gateway answers with older data any more. {plural(replicas, 'gateway')}{' '}
      confirmed that; it took {duration(waited)}. Receipt <code>{id}</code>.
      {!known && ' But no client ever asked this project: its name may be misspelt.'}
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
  watch: 'watcher',
};

const WATCHES: readonly Column<Watches['watches'][number]>[] = [
  col('Project', 'project'),
  col('By', 'kind'),
  figure('Every', 'every_ms', duration),
  col('State', 'state', (state, { why }) =>
    marked(why ? `${state}: ${why}` : state, state === 'blind'),
  ),
  col('Seen', 'seen_at', time),
  col('Changed', 'changed_at', time),
  col('Purged', 'purged_at', time),
  col('Signature', 'signature', code),
];

const HOOKS: readonly Column<Watches['hooks'][number]>[] = [
  col('Name', 'name'),
  col('Format', 'format'),
  col('Projects', 'projects', (projects) => projects.join(', ')),
  figure('Calls in an hour', 'taken', count),
  figure('Refused', 'refused', (refused) => marked(count(refused), refused > 0)),
  col('Purged', 'purged_at', time),
];

const PURGES: readonly Column<Purges['purges'][number]>[] = [
  col('At', 'at', time),
  col('What', 'scope', (scope, { known }) => (
    <>
      {scope === 'everything' ? <b>everything</b> : scope.project}
      {!known && <small class="problem"> not known</small>}
    </>
  )),
  col('By', 'principal'),
  col('Cause', 'cause', (cause) => CAUSES[cause] ?? cause),
  col('Result', 'result', (result) => marked(RESULTS[result] ?? result, result !== 'cleared')),
  figure('Waited', 'waited', duration),
  figure('Gateways', 'replicas', count),
  figure('Engine calls', 'engine_calls', count),
  col('Receipt', 'id', code),
];
