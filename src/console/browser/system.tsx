/** The page System: what runs, with which configuration, and what its words mean. */
import type { Reasons, System } from './json.ts';
import type { Page } from './page.ts';
import { col, type Column, Facts, figure, REASONS, Shown, Table, Time } from './parts.tsx';
import { count, size } from '../../common/words.ts';

export const systemPage: Page = {
  path: '/console/system',
  title: 'System',
  isFor: ({ view }) => view,
  sources: () => ({ system: '/admin/system', ...REASONS }),
  view: ({ source }) => (
    <Shown of={source<System>('system')}>
      {(system) => (
        <>
          <p class="lead">
            <a class="button" href="/admin/diagnosis" download="diagnosis.json">
              Save diagnosis.json
            </a>{' '}
            holds all of this for those who help you: no statements and no secrets, but names of
            users.
          </p>
          <Parts system={system} />
          <h2>Configuration in force</h2>
          {system.waiting_for_restart.length > 0 && (
            <p class="finding warning">
              Changed in the file, and waiting for a restart:{' '}
              {system.waiting_for_restart.join(', ')}.
            </p>
          )}
          <pre class="configuration" tabIndex={0}>
            {system.configuration}
          </pre>
          <h2>Words</h2>
          <details>
            <summary>Reasons, in Cache-Status, log and metrics</summary>
            <Shown of={source<Reasons>('reasons')}>
              {({ reasons }) => <Table caption="Reasons" rows={reasons} columns={WORDS} none="" />}
            </Shown>
          </details>
          <details>
            <summary>Metrics</summary>
            <Table caption="Metrics" rows={system.metrics} columns={METRICS} none="" />
          </details>
        </>
      )}
    </Shown>
  ),
};

function Parts({ system }: { system: System }) {
  const { redis, storage } = system;
  return (
    <>
      <Facts
        rows={[
          ['Version', system.version],
          ['Node.js', `${system.node} on ${system.platform}`],
          ['Started', <Time key="started" at={system.started_at ?? system.at} />],
          ['Gateway', <code key="gateway">{system.gateway}</code>],
          ['Redis', [redis.state, redis.mode, redis.why].filter(Boolean).join(', ')],
          ['Storage', `${storage.driver}, ${storage.state}`],
        ]}
      />
      {redis.conditions.map((condition) => (
        <p key={condition} class="finding warning">
          Redis: {condition}
        </p>
      ))}
      <Table caption="Engines" rows={system.engines} columns={ENGINES} none="None." />
      <Table
        caption={`Processes${system.complete ? '' : ', of which some did not answer'}`}
        rows={system.processes}
        columns={PROCESSES}
        none="None answered."
      />
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
  figure(
    'Connections',
    ({ connections, connections_limit }) => `${count(connections)} of ${count(connections_limit)}`,
  ),
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
