import type { FreshnessStore } from '../../../src/freshness/freshness-store.ts';
import type { UnnotedSessions } from '../../../src/freshness/unnoted.ts';
import type { Sessions } from '../../../src/sessions/sessions.ts';
import type { Channel, Link as WorkerLink } from '../../../src/workers/link.ts';
import { createLink, type Habits, type Mood } from '../links.ts';
import type { Random } from '../random.ts';
import type { Program } from '../program.ts';
import { createRedisModel } from '../redis/model.ts';
import { createProcess, type SimulatedProcess, type SimulatedTime } from '../time.ts';
import { createSessionLink } from './session-link.ts';

/** Registries, stores, and what workers share. */
export const SESSION_PARTS = [
  ...(['sessions', 'unnoted', 'memory', 'health', 'link', 'shared'] as const),
];
export type SessionProgram = Pick<Program, (typeof SESSION_PARTS)[number]>;

/**
 * What gateways share: a Redis; what a primary process keeps for its workers; or a Redis, with those sessions in the
 * primary process that Redis was not told of.
 */
export const FORMS = ['redis', 'workers', 'workers and redis'] as const;
export type Form = (typeof FORMS)[number];

export interface SimulatedGateway {
  readonly number: number;
  readonly sessions: Sessions;
  readonly home: SimulatedProcess;
  /** Its way to Redis; without one, nothing. */
  set(mood: Mood): void;
  /** Whether it could not ask Redis, or heard nothing of it, at that moment (ms) or later. */
  failedSince(moment: number): boolean;
}

/** Of each gateway (ms). The longest that the configuration may name is longer. */
const LEASES = [100, 300, 1_000, 300];
export const LONGEST_LEASE = 2_000;
/** Clocks that do not run alike: less than the margin of a lease apart. */
const RATES = [1, 1.04, 0.96, 1.02];

/** The ends of the channel between two processes: what is sent arrives in order, or not at all. */
function channelPair(
  { time, random, habits }: Pick<Parameters<typeof openHouse>[0], 'time' | 'random' | 'habits'>,
  homes: readonly SimulatedProcess[],
) {
  const { slowOneIn = 0, slowMs = 0 } = habits;
  const wire = createLink({ time, random, lanes: {}, habits: { slowOneIn, slowMs } });
  const heard: ((message: unknown) => void)[] = [];
  const channel = (own: number, other: number): Channel => ({
    send(message, _connection, _options, callback) {
      const sent = JSON.stringify(message);
      wire.tell(`to ${other}`, () =>
        homes[other]?.whenAwake(() => heard[other]?.(JSON.parse(sent))),
      );
      queueMicrotask(() => callback(null));
    },
    on: (_event, listener) => (heard[own] = listener),
  });
  return { ends: [channel(0, 1), channel(1, 0)] as const, cut: () => wire.set('cut') };
}

/** Gateways of one form, with real registries of sessions, over links that do not always do what they are told. */
export function openHouse(options: {
  program: SessionProgram;
  form: Form;
  gateways: number;
  time: SimulatedTime;
  random: Random;
  habits: Partial<Habits>;
  /** Whether clocks run at rates of their own. */
  isSkewed: boolean;
}) {
  const { program, form, time, random, habits } = options;
  let tokens = 0;
  const newToken = () => `token-${(tokens += 1)}`;
  const redis = createRedisModel({
    ...{ now: time.clock.now, newToken, longestLease: LONGEST_LEASE },
  });
  const atPrimary = createProcess(time);
  const attach = program.shared.createPrimary({
    ...{ clock: atPrimary.clock, newToken, orphanLease: LONGEST_LEASE },
    ...{ engineStates: async () => undefined, inForce: () => undefined, configuration: () => '' },
    states: { engines: () => [], reloaded: () => true },
  });
  const closers = new Map<number, () => void>();

  /** A worker, joined to the primary process. */
  function join(home: SimulatedProcess) {
    const { createLink: linkOf } = program.link;
    const { ends, cut } = channelPair(options, [home, atPrimary]);
    const link = linkOf(ends[0], 'the primary process', home.clock);
    const primary = linkOf(ends[1], 'the worker', atPrimary.clock);
    const leave = attach(primary);
    return { link, die: () => [cut(), link.close(), primary.close(), leave()] };
  }

  function open(number: number): SimulatedGateway {
    const home = createProcess(time, options.isSkewed ? RATES[number % RATES.length] : 1);
    const length = LEASES[number % LEASES.length] ?? 0;
    const lease = () => length;
    const worker = form === 'redis' ? undefined : join(home);
    const ownStore = redis.of({ id: newToken(), lease: length });
    const link = createSessionLink({ program, store: ownStore, time, home, random, habits });
    const store =
      form === 'workers' && worker !== undefined
        ? workerStore(program, worker.link, newToken(), lease)
        : link.store;
    const { noteIn, createUnnoted } = program.unnoted;
    const note = noteIn({ store, newToken }, home.sleep);
    const unnoted: UnnotedSessions =
      worker === undefined
        ? createUnnoted(note, home.sleep)
        : program.shared.unnotedAtPrimary(worker.link, {
            note,
            last: (name) => sessions.last(name),
          });
    const sessions: Sessions = program.sessions.createSessions({
      ...{ store, clock: home.clock, lease, sleep: home.sleep, newToken, unnoted },
      onError() {},
    });
    closers.set(number, () => {
      link.set('cut');
      link.close();
      unnoted.close();
      worker?.die();
    });
    return { number, sessions, home, set: link.set, failedSince: link.failedSince };
  }

  const gateways = Array.from({ length: options.gateways }, (_, number) => open(number));
  return {
    gateways,
    redis,
    /** The process of a gateway dies, and another one takes its place. */
    replace(number: number): void {
      closers.get(number)?.();
      gateways[number] = open(number);
    },
    close(): void {
      for (const close of closers.values()) close();
      attach.close();
    },
  };
}

const workerStore = (
  program: SessionProgram,
  link: WorkerLink,
  gateway: string,
  lease: () => number,
): Pick<FreshnessStore, 'session' | 'renew'> =>
  program.shared.createWorkerStores({ link, gateway, lease, longestLease: LONGEST_LEASE })
    .freshness;
