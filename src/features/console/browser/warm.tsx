import { Component } from 'preact';
import { call, problemOf } from './call.ts';
import type { WarmUp } from './json.ts';
import { link, type Page, type PageView } from './page.ts';
import { col, type Column, Field, figure, submitted, table, time } from './parts.tsx';
import { digestLink, projectOf, seconds } from './queries.tsx';
import { count, duration } from '../../../common/words.ts';

export const warmPage: Page = {
  path: '/console/warm',
  title: 'Warm-up',
  isFor: ({ view }) => view,
  sources: () => ({ warm: [] }),
  view: (view) =>
    view.show<WarmUp>('warm', ({ mode, as, complete, waiting, run, runs, candidates }) => (
      <>
        <p>
          {mode === 'off'
            ? 'Off: the gateway asks nothing again after a purge (warm.mode).'
            : `The most valuable queries are asked again ${as}.`}
          {waiting && ` The next run begins in ${duration(waiting.begins_in_ms)}.`}
        </p>
        {view.rights.administer && mode !== 'off' && <RunNow view={view} />}
        {table('Runs', run === null ? runs : [run, ...runs], RUNS, 'No run yet.')}
        {table('What the next run asks', candidates, CANDIDATES, 'No query was asked twice.')}
        {!complete && <p class="hint">Redis cannot be reached, and may know more.</p>}
      </>
    )),
};

class RunNow extends Component<{ view: PageView }, { said?: string }> {
  readonly begin = submitted(async (typed) => {
    const answer = await call(link('/admin/warm', typed), { method: 'POST' });
    this.setState({ said: answer.status === 202 ? 'A run has begun.' : problemOf(answer) });
    this.props.view.refresh();
  });

  override render(_props: unknown, { said }: { said?: string }) {
    return (
      <form class="row" aria-label="Run now" onSubmit={this.begin}>
        <Field label="Project" name="project" placeholder="all" />
        <button type="submit">Run now, with my login</button>
        <span role="status">{said}</span>
        <p class="hint">
          If the engine gets the login of each user, the run asks only what you asked yourself.
        </p>
      </form>
    );
  }
}

const counts = (by: Readonly<Record<string, number>>) =>
  Object.entries(by)
    .map(([reason, times]) => `${times} ${reason}`)
    .join(', ');

const RUNS: readonly Column<WarmUp['runs'][number]>[] = [
  col('Begun', 'begun', time),
  col('Because of', 'by', (by, { purge, project }) => (
    <>
      {by ?? `purge ${purge?.slice(0, 10)}`} {project}
    </>
  )),
  col('Ended', 'ended', (ended, { cut }) => (
    <>
      {time(ended) ?? 'under way'}
      {cut !== null && <span class="problem"> {cut}</span>}
    </>
  )),
  figure('Planned', 'planned', count),
  figure('Stored', 'stored', count),
  figure('There', 'there', count),
  col('Not stored', 'not_stored', counts),
  col('Failed', 'failed', counts),
  col('Skipped', 'skipped', counts),
  figure('Engine', 'engine_seconds', seconds),
];

const CANDIDATES: readonly Column<WarmUp['candidates'][number]>[] = [
  col('Query', 'digest', digestLink),
  col('Asks for', 'subject'),
  col('Project', 'project', projectOf),
  figure('Score', 'score', count),
  figure('Asks', 'asks', count),
  figure('Engine', 'engine_ms', duration),
];
