/** The page Warm-up: what is asked again after a purge, and what became of that. */
import { Component } from 'preact';
import { call, problemOf } from './call.ts';
import type { WarmUp } from './json.ts';
import { link, type Page, type PageView } from './page.ts';
import { col, type Column, Field, figure, submitted, table, Time } from './parts.tsx';
import { DigestLink } from './queries.tsx';
import { count, duration } from '../../common/words.ts';

type Run = WarmUp['runs'][number];

export const warmPage: Page = {
  path: '/console/warm',
  title: 'Warm-up',
  isFor: ({ view }) => view,
  sources: () => ({ warm: '/admin/warm' }),
  view: (view) =>
    view.show<WarmUp>('warm', ({ mode, as, complete, waiting, run, runs, candidates }) => (
      <>
        <p class="lead">
          {mode === 'off'
            ? 'Off: nothing is asked again after a purge (warm.mode).'
            : `What was asked most is asked again ${as}.`}
          {waiting && ` The next run begins in ${duration(waiting.begins_in_ms)}.`}
        </p>
        {view.rights.administer && mode !== 'off' && <RunNow view={view} />}
        {table('Runs', run === null ? runs : [run, ...runs], RUNS, 'There was no run.')}
        {table('What the next run asks', candidates, CANDIDATES, 'Nothing was asked twice.')}
        {!complete && <p class="hint">Redis cannot be reached: more may be known there.</p>}
      </>
    )),
};

/** Begins a run with the login of who clicks. */
class RunNow extends Component<{ view: PageView }, { said?: string }> {
  readonly begin = submitted(async (typed) => {
    const answer = await call(link('/admin/warm', typed), { method: 'POST' });
    this.setState({ said: answer.status === 202 ? 'A run has begun.' : problemOf(answer) });
    this.props.view.refresh();
  });

  override render(_props: unknown, { said }: { said?: string }) {
    return (
      <form class="filter" aria-label="Run now" onSubmit={this.begin}>
        <Field label="Project" name="project" placeholder="all" />
        <button type="submit">Run now, with my login</button>
        <span role="status">{said}</span>
      </form>
    );
  }
}

/** How many, with their reasons. */
const counts = (by: Readonly<Record<string, number>>) =>
  Object.entries(by)
    .map(([reason, times]) => `${times} ${reason}`)
    .join(', ');

const RUNS: readonly Column<Run>[] = [
  col('Begun', ({ begun }) => <Time at={begun} />),
  col('Because of', ({ by, purge, project }) => (
    <>
      {by ?? `purge ${purge?.slice(0, 10)}`} {project}
    </>
  )),
  col('Ended', ({ ended, cut }) => (
    <>
      {ended === null ? 'under way' : <Time at={ended} />}
      {cut !== null && <span class="problem"> {cut}</span>}
    </>
  )),
  figure('Planned', ({ planned }) => count(planned)),
  figure('Stored', ({ stored }) => count(stored)),
  figure('There', ({ there }) => count(there)),
  col('Not stored', ({ not_stored: by }) => counts(by)),
  col('Failed', ({ failed }) => counts(failed)),
  col('Skipped', ({ skipped }) => counts(skipped)),
  figure('Engine', ({ engine_seconds: time }) => duration(time * 1000)),
];

const CANDIDATES: readonly Column<WarmUp['candidates'][number]>[] = [
  col('Query', ({ digest }) => <DigestLink digest={digest} />),
  col('Asks for', ({ subject }) => subject),
  col('Project', ({ project, catalogs }) => project || catalogs),
  figure('Score', ({ score }) => count(score)),
  figure('Asks', ({ asks }) => count(asks)),
  figure('Engine', ({ engine_ms: time }) => duration(time)),
];
