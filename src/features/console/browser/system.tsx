import type { Reasons, System } from './json.ts';
import type { Page } from './page.ts';
import { code, col, type Column, facts, figure, ofLimit, table, time } from './parts.tsx';
import { count, size } from '../../../common/words.ts';

export const systemPage: Page = {
  path: '/console/system',
  title: 'System',
  isFor: ({ view }) => view,
  sources: () => ({ system: [], reasons: [] }),
  view: (view) =>
    view.show<System>('system', (system) => (
      <>
        <p>
          <a class="button" href="/admin/diagnosis" download="diagnosis.json">
            Save diagnosis.json
          </a>{' '}
          holds all of this for people who help you. It has no statements and no secrets, but names
          of users.
        </p>
        {partsOf(system)}
        <h2>Configuration in force</h2>
        {system.waiting_for_restart.length > 0 && (
          <p class="finding warning">
            Changed in the file; these keys wait for a restart:{' '}
            {system.waiting_for_restart.join(', ')}.
          </p>
        )}
        <pre tabIndex={0}>{system.configuration}</pre>
        <h2>Words</h2>
        <details>
          <summary>Reasons, in Cache-Status, log and metrics</summary>
          {view.show<Reasons>('reasons', ({ reasons }) => table('Reasons', reasons, WORDS, ''))}
        </details>
        <details>
          <summary>Metrics</summary>
          {table('Metrics', system.metrics, METRICS, '')}
        </details>
      </>
    )),
};

function partsOf(system: System) {
  const { redis, storage, engines, processes, complete } = system;
  const told = complete ? 'Processes' : 'Processes, of which some did not answer';
  return (
    <>
      {facts([
        ['Version', system.version],
        ['Node.js', `${system.node} on ${system.platform}`],
        ['Started', time(system.started_at ?? system.at)],
        ['Gateway', code(system.gateway)],
        ['Redis', [redis.state, redis.mode, redis.why].filter(Boolean).join(', ')],
        ['Storage', `${storage.driver}, ${storage.state}`],
      ])}
      {redis.conditions.map((condition) => (
        <p class="finding warning">Redis: {condition}</p>
      ))}
      {table('Engines', engines, ENGINES, 'None.')}
      {table(told, processes, PROCESSES, 'None answered.')}
    </>
  );
}

const ENGINES: readonly Column<System['engines'][number]>[] = [
  col('URL', 'url'),
  col('State', 'state', (state) => (
    <span class={state === 'up' ? 'good' : 'problem'}>{state}</span>
  )),
  col('Why', 'why'),
];

const PROCESSES: readonly Column<System['processes'][number]>[] = [
  col('Process', 'pid'),
  col('Started', 'started_at', time),
  figure('Resident', 'rss_bytes', size),
  figure('Entries', 'entries', count),
  figure('Cache', 'memory_bytes', size),
  figure('Connections', 'connections', (open, own) => ofLimit(open, own.connections_limit)),
  figure('At the engine', 'at_engine', count),
  figure('Waiting', 'waiting', count),
];

const WORDS: readonly Column<Reasons['reasons'][number]>[] = [
  col('Word', 'word', code),
  col('Of', 'outcome'),
  col('Meaning', 'meaning', (meaning, { remedy = '' }) => `${meaning} ${remedy}`),
];
const METRICS: readonly Column<System['metrics'][number]>[] = [
  col('Name', 'name', code),
  col('Type', 'type'),
  col('Meaning', 'help'),
];
