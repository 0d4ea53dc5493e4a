/** The page System: what runs, with which configuration, and what its words mean. */
import type { Reasons, System } from './json.ts';
import type { Page } from './page.ts';
import { col, type Column, facts, figure, REASONS, table, Time } from './parts.tsx';
import { count, size } from '../../common/words.ts';

export const systemPage: Page = {
  path: '/console/system',
  title: 'System',
  isFor: ({ view }) => view,
  sources: () => ({ system: '/admin/system', ...REASONS }),
  view: (view) =>
    view.show<System>('system', (system) => (
      <>
        <p class="lead">
          <a class="button" href="/admin/diagnosis" download="diagnosis.json">
            Save diagnosis.json
          </a>{' '}
          holds all of this for those who help you: no statements and no secrets, but names of
          users.
        </p>
        {partsOf(system)}
        <h2>Configuration in force</h2>
        {system.waiting_for_restart.length > 0 && (
          <p class="finding warning">
            Changed in the file, and waiting for a restart: {system.waiting_for_restart.join(', ')}.
          </p>
        )}
        <pre class="configuration" tabIndex={0}>
          {system.configuration}
        </pre>
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
        ['Started', <Time key="started" at={system.started_at ?? system.at} />],
        ['Gateway', <code key="gateway">{system.gateway}</code>],
        ['Redis', [redis.state, redis.mode, redis.why].filter(Boolean).join(', ')],
        ['Storage', `${storage.driver}, ${storage.state}`],
      ])}
      {redis.conditions.map((condition) => (
        <p key={condition} class="finding warning">
          Redis: {condition}
        </p>
      ))}
      {table('Engines', engines, ENGINES, 'None.')}
      {table(told, processes, PROCESSES, 'None answered.')}
    </>
  );
}

const ENGINES: readonly Column<System['engines'][number]>[] = [
  col('URL', ({ url }) => url),
  col('State', ({ state }) => <span class={state === 'up' ? 'good' : 'problem'}>{state}</span>),
  col('Why', ({ why }) => why),
];

const PROCESSES: readonly Column<System['processes'][number]>[] = [
  col('Process', ({ pid }) => pid),
  col('Started', ({ started_at }) => <Time at={started_at} />),
  figure('Resident', ({ rss_bytes }) => size(rss_bytes)),
  figure('Entries', ({ entries }) => count(entries)),
  figure('Cache', ({ memory_bytes }) => size(memory_bytes)),
  figure('Connections', (own) => `${count(own.connections)} of ${count(own.connections_limit)}`),
  figure('At the engine', ({ at_engine }) => count(at_engine)),
  figure('Waiting', ({ waiting }) => count(waiting)),
];

const WORDS: readonly Column<Reasons['reasons'][number]>[] = [
  col('Word', ({ word }) => <code>{word}</code>),
  col('Of', ({ outcome }) => outcome),
  col('Meaning', ({ meaning, remedy }) => `${meaning} ${remedy ?? ''}`),
];
const METRICS: readonly Column<System['metrics'][number]>[] = [
  col('Name', ({ name }) => <code>{name}</code>),
  col('Type', ({ type }) => type),
  col('Meaning', ({ help }) => help),
];
