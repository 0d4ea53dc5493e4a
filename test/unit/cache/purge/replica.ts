import { randomUUID } from 'node:crypto';
import type { BodyAccount } from '../../../../src/common/body-account.ts';
import type { Clock } from '../../../../src/common/clock.ts';
import type { GatewayEvent } from '../../../../src/common/events.ts';
import type { FreshnessStore } from '../../../../src/freshness/freshness-store.ts';
import { createEpochs, type Epochs } from '../../../../src/freshness/freshness.ts';
import { createMemoryStore } from '../../../../src/freshness/memory-store.ts';
import { createMemoryTier, type MemoryTier } from '../../../../src/cache/memory-tier.ts';
import { type ClearEngines, createPurges, type Purge } from '../../../../src/cache/purge/purge.ts';
import { createFlights, type Flights } from '../../../../src/cache/flights.ts';
import { createPurgeLog } from '../../../../src/cache/purge/purge-log.ts';
import { createQueryCache, type QueryCache } from '../../../../src/cache/cache.ts';
import type { EngineAnswer, Query } from '../../../../src/cache/query.ts';
import { createSharedEntries } from '../../../../src/cache/shared-entries.ts';
import { createSharedFlights, type FlightLocks } from '../../../../src/cache/shared-flights.ts';
import type { ValueTier } from '../../../../src/cache/shared-entries.ts';
import { NO_SEALER } from '../../../../src/common/sealing.ts';
import { sharedEpochs } from './fake-epoch-stores.ts';
import { type FakeClient, fakeClient } from '../fake-client.ts';
import {
  bodyAccount,
  engineAnswer,
  fakeTier,
  handClock,
  rowset,
  type HandClock,
} from '../fakes.ts';

export const FLIGHT_DEADLINE = 300_000;

/** Who purges in these tests. */
export const ORDER = { principal: 'ADMIN', cause: 'clear-cache' } as const;

export interface Replica {
  /** Asks for an answer, and resolves when nothing is left to do. */
  answer(query: Query, client?: FakeClient): Promise<FakeClient>;
  readonly cache: QueryCache;
  readonly explain: QueryCache['explain'];
  readonly timedOut: QueryCache['timedOut'];
  readonly purge: Purge;
  readonly epochs: Epochs;
  readonly memory: MemoryTier;
  readonly account: BodyAccount;
  readonly flights: Flights;
  readonly clock: HandClock;
  readonly events: GatewayEvent[];
}

/** One gateway's query cache with everything it stands on, but for engine and clients. */
export function replica(
  options: {
    clock?: HandClock;
    /** Without one it is alone. */
    store?: FreshnessStore;
    lease?: number;
    values?: ValueTier;
    /** Where it meets other gateways for slow queries, and how it waits for them. */
    locks?: FlightLocks;
    sleep?: (milliseconds: number) => Promise<void>;
    maxEntry?: number;
    /** Bytes of bodies under way, and of tier 1. */
    inFlight?: number;
    maxMemory?: number;
    random?: () => number;
    /** How long past its ttl an entry is kept (ms). */
    staleIfError?: number;
    epochs?: Epochs;
    clearEngines?: ClearEngines;
    /** How a purge waits. */
    purgeSleep?: (milliseconds: number) => Promise<void>;
  } = {},
): Replica {
  const { clock = handClock(), store, lease = Infinity, maxEntry = 1024 * 1024 } = options;
  const events: GatewayEvent[] = [];
  const emit = (event: GatewayEvent) => void events.push(event);
  const epochs =
    options.epochs ??
    createEpochs({ store: store ?? memoryStore(clock), clock, lease: () => lease });
  const { inFlight, maxMemory = 10 * 1024 * 1024 } = options;
  const account = bodyAccount(inFlight);
  const staleIfError = () => options.staleIfError ?? 0;
  const memory = createMemoryTier({ maxBytes: maxMemory, clock, account, staleIfError });
  const flights = createFlights({ clock, deadline: () => FLIGHT_DEADLINE });
  const cache = createQueryCache({
    epochs,
    memory,
    flights,
    clock,
    emit,
    entries:
      options.values &&
      createSharedEntries(options.values, NO_SEALER, {
        clock,
        maxEntry: () => maxEntry,
        account,
        emit,
        staleIfError,
      }),
    sharedFlights:
      options.locks &&
      createSharedFlights({
        locks: options.locks,
        clock,
        sleep: options.sleep ?? (async (milliseconds) => clock.advance(milliseconds)),
        newToken: randomUUID,
        longestFlight: () => FLIGHT_DEADLINE,
        emit,
      }),
    random: options.random ?? (() => 0),
    purgeTakes: store === undefined ? 0 : lease,
    maxEntry: () => maxEntry,
    account,
  });
  const { purge } = createPurges({
    epochs,
    isKnown: () => false,
    clearMemory: memory.clear,
    engineClearing: { clear: options.clearEngines ?? (async () => []), asksAsCaller: () => false },
    log: createPurgeLog(),
    clock,
    sleep: options.purgeSleep ?? (async (milliseconds) => clock.advance(milliseconds)),
    newId: () => 'id',
    emit,
  });
  return {
    epochs,
    memory,
    account,
    flights,
    clock,
    events,
    cache,
    purge,
    explain: cache.explain,
    timedOut: cache.timedOut,
    async answer(query, client = fakeClient()) {
      await cache.answer(query, client);
      return client;
    },
  };
}

/** The store of a gateway that is alone. */
export function memoryStore(clock: Clock): FreshnessStore {
  let made = 0;
  const newToken = () => `token ${(made += 1)}`;
  return createMemoryStore({ newToken, clock });
}

export interface FakeEngine {
  readonly ask: Query['ask'];
  /** Requests so far, those under way now, and the most that were under way at one time. */
  readonly asked: number;
  readonly inside: number;
  readonly most: number;
}

/** @param respond is told the number of the request, from 1 */
export function fakeEngine(
  respond: (call: number, signal: AbortSignal) => EngineAnswer | Promise<EngineAnswer>,
): FakeEngine {
  let asked = 0;
  let inside = 0;
  let most = 0;
  async function* counted(body: EngineAnswer['body']) {
    try {
      yield* body;
    } finally {
      inside -= 1;
    }
  }
  return {
    async ask(signal) {
      asked += 1;
      inside += 1;
      most = Math.max(most, inside);
      try {
        const answer = await respond(asked, signal);
        return { ...answer, body: counted(answer.body) };
      } catch (error) {
        inside -= 1;
        throw error;
      }
    },
    get asked() {
      return asked;
    },
    get inside() {
      return inside;
    },
    get most() {
      return most;
    },
  };
}

/** A replica with a tier 2, and an engine that answers with this SOAP header. */
export function sessionReplica(
  header: string,
  options: { headers?: EngineAnswer['head']['headers']; maxEntry?: number } = {},
) {
  const clock = handClock();
  const values = fakeTier();
  const one = replica({
    clock,
    values,
    store: sharedEpochs().replica(1_000),
    lease: 1_000,
    ...(options.maxEntry !== undefined && { maxEntry: options.maxEntry }),
  });
  const engine = fakeEngine((call) =>
    engineAnswer(rowset(`answer ${call}`, header), clock, { headers: options.headers ?? {} }),
  );
  return { ...one, values, engine };
}

/** Epochs that cannot be known. */
export function unknownEpochs(clock: Clock): Epochs {
  const fail = () => Promise.reject(new Error('out of reach'));
  return createEpochs({
    clock,
    lease: () => 1_000,
    store: {
      read: fail,
      renew: fail,
      incarnation: fail,
      session: fail,
      announce: fail,
      listen() {},
    },
  });
}
