import { Counter, Gauge, type Registry } from 'prom-client';
import type { BodyAccount } from '../common/body-account.ts';
import type { ReplicaState } from '../common/events.ts';
import type { Labels } from './event-rows.ts';

/** Port: a figure that is read when the metrics are. `mdx_gateway_` stands before its name. */
export interface Figure {
  readonly name: string;
  readonly help: string;
  readonly labels?: readonly string[];
  /** How the figures of several workers become one; their sum without it. */
  readonly aggregator?: 'min' | 'max';
  /** A count that is kept elsewhere. One that events move as well begins at what is read. */
  readonly isTotal?: boolean;
  /** One figure, or one for each set of labels, of which there may be none. */
  readonly read: () => Figures | Promise<Figures>;
}
export type Figures = number | readonly (readonly [labels: Labels, figure: number])[];

export interface Gauges {
  readonly memory: () => { readonly entries: number; readonly bytes: number };
  /** Entries that left the memory tier since the start; `unused`: without a second hit. */
  readonly evictions: () => Readonly<Record<'all' | 'unused', number>>;
  readonly flights: () => { readonly flights: number; readonly waiters: number };
  readonly engine: () => { readonly atEngine: number; readonly waiting: number };
  readonly logins: () => number;
  /** Bytes of the memory tier, requests at the engine and waiting for it. */
  readonly limits: () => Readonly<Record<'memory' | 'concurrency' | 'queue', number>>;
  readonly bodies: BodyAccount['usage'];
  readonly connections: () => { readonly open: number; readonly limit: number };
  /** Milliseconds; undefined when no epoch is held. */
  readonly epochAge: () => number | undefined;
  readonly owedPurges: () => number;
  /** Settings of Redis that endanger purges. */
  readonly redisConditions: () => readonly string[];
  readonly states: States;
  readonly ofFeatures: readonly Figure[];
  /** End of the gateway's own certificate (Unix time, ms). */
  readonly certificateEnd: () => number | undefined;
  readonly version?: string | undefined;
}

/** Figures that are left out are not told. */
export interface States {
  /** Latest states of the engines in force. They are asked for the next reading. */
  readonly engines: () => readonly ReplicaState[];
  readonly redisUp?: () => boolean | undefined;
  readonly storageUp?: () => Promise<boolean | undefined>;
  /** False where the last reload failed. */
  readonly reloaded?: () => boolean;
  /** Processes that there should be; 1 where it is left out. */
  readonly workers?: number;
}

const figure = (
  name: string,
  help: string,
  read: Figure['read'],
  more: Partial<Figure> = {},
): Figure => ({ name, help, read, ...more });
const LEAST = { aggregator: 'min' } as const;
const MOST = { aggregator: 'max' } as const;

export function figuresOf(gauges: Gauges): readonly Figure[] {
  const { memory, evictions, flights, engine, limits, bodies, logins, connections } = gauges;
  return [
    figure('memory_entries', 'Entries in the memory tier.', () => memory().entries),
    figure('memory_bytes', 'Bytes in the memory tier.', () => memory().bytes),
    figure('memory_limit_bytes', 'Limit of the memory tier: cache.memory.', () => limits().memory),
    figure(
      'memory_evictions_total',
      'Entries of the memory tier that gave way to others.',
      () => evictions().all,
      { isTotal: true },
    ),
    figure('flights', 'Engine requests that others may join.', () => flights().flights),
    figure('flight_waiters', 'Requests that wait for a flight.', () => flights().waiters),
    figure('engine_requests', 'Requests at the engine.', () => engine().atEngine),
    figure('engine_requests_limit', 'What limits.concurrency allows.', () => limits().concurrency),
    figure('engine_queue', 'Requests that wait for the engine.', () => engine().waiting),
    figure('engine_queue_limit', 'What limits.queue allows.', () => limits().queue),
    figure(
      'in_flight_bytes',
      'Memory of bodies under way, outside the memory tier, by use (request, fill, value, sending).',
      () => Object.entries(bodies().bytes).map(([use, bytes]) => [{ use }, bytes]),
      { labels: ['use'] },
    ),
    figure('in_flight_limit_bytes', 'What limits.in_flight allows.', () => bodies().limit),
    figure('in_flight_queue', 'Requests that wait for memory.', () => bodies().waiting),
    figure('logins_waiting', 'Logins that wait to be checked.', logins),
    figure('connections', 'Open connections.', () => connections().open),
    figure('connections_limit', 'What limits.connections allows.', () => connections().limit),
    figure(
      'epoch_age_seconds',
      'Seconds since the oldest epoch in use was read; 0 if the gateway makes them itself.',
      () => (gauges.epochAge() ?? 0) / 1000,
      MOST,
    ),
    figure('purges_owed', 'Scopes whose purge is owed to Redis.', gauges.owedPurges),
    figure(
      'redis_conditions',
      'Settings of Redis that are not as a purge needs them; GET /health/ready names them.',
      () => gauges.redisConditions().length,
      MOST,
    ),
    ...figuresOfStates(gauges.states),
    figure(
      'certificate_end_seconds',
      'When a certificate of the gateway ends (Unix time), by key.',
      () => {
        const end = gauges.certificateEnd();
        return end === undefined ? [] : [[{ key: 'listen.certificate' }, end / 1000]];
      },
      { labels: ['key'], ...LEAST },
    ),
    ...gauges.ofFeatures,
    figure('workers', 'Processes that these figures cover.', () => 1),
    figure(
      'build_info',
      'Always 1; the label says which version it is.',
      () => [[{ version: gauges.version ?? '' }, 1]],
      { labels: ['version'], ...LEAST },
    ),
  ];
}

const upOf = (part: string, name: string, up: boolean | undefined) =>
  up === undefined ? [] : [[{ part, name }, Number(up)] as const];

/** States of what the gateway stands on. Of workers the primary knows engines and reloads. */
export function figuresOfStates(states: States): readonly Figure[] {
  const { engines, redisUp, storageUp, reloaded, workers = 1 } = states;
  const up = figure(
    'up',
    'Whether a part answers (1) or not (0), as far as it is known: engine (its URL), redis, storage.',
    async () => [
      ...engines().flatMap(({ url, state }) => upOf('engine', url, state === 'up')),
      ...upOf('redis', '', redisUp?.()),
      ...upOf('storage', '', await storageUp?.()),
    ],
    { labels: ['part', 'name'], ...LEAST },
  );
  if (reloaded === undefined) return [up];
  return [
    up,
    figure(
      'config_last_reload_successful',
      'Whether the last reload of the configuration succeeded (1) or kept the old one (0); 1 after the start.',
      () => Number(reloaded()),
    ),
    figure(
      'workers_configured',
      'Processes that should run: workers, as at the start.',
      () => workers,
    ),
  ];
}

export const aboutIn = (registry: Registry, { name, help, labels = [] }: Omit<Figure, 'read'>) => ({
  name: `mdx_gateway_${name}`,
  help,
  labelNames: [...labels],
  registers: [registry],
});

const seriesIn = (figures: Figures) =>
  typeof figures === 'number' ? ([[{}, figures]] as const) : figures;

export function registerFigure(registry: Registry, figure: Figure): Counter | Gauge {
  const { aggregator, read } = figure;
  const about = aboutIn(registry, figure);
  if (figure.isTotal) {
    return new Counter({
      ...about,
      async collect() {
        const figures = await read();
        this.reset();
        for (const [labels, count] of seriesIn(figures)) this.inc(labels, count);
      },
    });
  }
  return new Gauge({
    ...about,
    ...(aggregator && { aggregator }),
    async collect() {
      const figures = await read();
      if (typeof figures !== 'number') this.reset();
      for (const [labels, value] of seriesIn(figures)) this.set(labels, value);
    },
  });
}
