import type { Client, Query } from '../../cache/query.ts';
import type { Clock } from '../../common/clock.ts';
import { GatewayError } from '../../common/errors.ts';
import { withoutReader } from '../../line/no-client.ts';
import type { SharedQuery } from '../../line/query.ts';
import type { Line } from '../feature.ts';
import type { Way } from './candidates.ts';
import type { WarmResult } from './events.ts';

const OVERTAKEN = new GatewayError('client-gone', 'A user needed the place at the engine.');

/** Slot at the engine for one request; a user may take it meanwhile. */
class Slot {
  readonly gone = new AbortController();
  leave: (() => void) | undefined;
  /** Aborted when the request is given up and no user has joined it. */
  unwanted: AbortSignal | undefined;
  isOvertaken = false;

  /** Gives the slot up for a user. @returns whether it is free at once */
  overtake(): boolean {
    this.isOvertaken = true;
    this.gone.abort(OVERTAKEN);
    const isFree = this.unwanted?.aborted ?? true;
    if (isFree) this.leave = undefined;
    return isFree;
  }
}

export type Slots = ReturnType<typeof createSlots>;

export function createSlots(admitBackground: Line['admitBackground']) {
  let current: Slot | undefined;
  return {
    leave: () => current?.leave,
    /** @throws what `use` throws, and the reason of the signal */
    async within<T>(until: AbortSignal, use: (slot: Slot) => Promise<T>): Promise<T> {
      const slot = new Slot();
      const end = () => slot.gone.abort(until.reason);
      until.addEventListener('abort', end, { once: true });
      try {
        const leave = await admitBackground(() => slot.overtake(), until);
        slot.leave = leave;
        current = slot;
        return await use(slot).finally(leave);
      } finally {
        until.removeEventListener('abort', end);
        current = undefined;
      }
    },
  };
}

/** `reason`: why not, of all but `stored` and `there`; `ms`: engine time. */
export interface AskedWay {
  readonly result: WarmResult;
  readonly reason?: string;
  readonly ms: number;
}

export const failed = (reason: string) => ({ result: 'failed', reason, ms: 0 }) as const;
export const skipped = (reason: string) => ({ result: 'skipped', reason, ms: 0 }) as const;

interface Filling extends Pick<Line, 'cache' | 'memory'> {
  readonly clock: Pick<Clock, 'now'>;
  readonly slots: Slots;
  readonly cut: AbortSignal;
  readonly since: number;
}

/** Fills the cache with the answer to one query, unless it is there. @param bytes of the answer */
export async function fill(query: SharedQuery, bytes: number, lane: Filling): Promise<AskedWay> {
  const before = await lane.cache.entryOf(query);
  if (before === undefined) return failed('epochs-unknown');
  if (before.entry !== undefined) return { result: 'there', ms: 0 };
  if (!lane.memory.hasRoom(bytes, lane.since)) return skipped('memory');
  const { answer } = lane.cache;
  return lane.slots.within(lane.cut, (slot) =>
    fillIn(slot, { ...query, background: true }, lane, answer),
  );
}

/** `after`: when the entry was asked for (wall clock, ms). `begins`: it is at the engine. */
export interface EndingEntry {
  readonly way: Way;
  readonly subject: string;
  readonly key: string;
  readonly after: number;
  readonly begins: () => void;
}

/** Fills the cache anew, unless Redis has a later entry. */
export async function renew(
  query: SharedQuery,
  { key, after, begins }: Omit<EndingEntry, 'way' | 'subject'>,
  lane: Filling,
): Promise<AskedWay> {
  const { cache, slots, cut } = lane;
  const known = await cache.keyOf(query);
  // Roles may have changed meanwhile, or it was purged.
  if (known?.key !== key) return skipped('key-differs');
  if (await cache.takeLater(known, after)) return { result: 'there', ms: 0 };
  return slots.within(cut, (slot) => {
    begins();
    return fillIn(slot, query, lane, (...asked) => cache.renew(...asked, key, after), after);
  });
}

async function fillIn(
  slot: Slot,
  query: SharedQuery,
  lane: Filling,
  ask: (query: Query, client: Client) => Promise<void>,
  after = -Infinity,
): Promise<AskedWay> {
  const { cache, clock, cut } = lane;
  let began: number | undefined;
  let found: AskedWay | undefined;
  const client: Client = {
    ...withoutReader(slot.gone.signal),
    notStored(reason) {
      found ??= { result: 'not-stored', reason, ms: 0 };
      // The rest of the answer helps no user.
      slot.gone.abort(OVERTAKEN);
    },
    fail(error) {
      found ??= failed(error instanceof GatewayError ? error.reason : 'internal');
    },
  };
  const background: Query = {
    ...query,
    // No client is shown a session that the engine begins by itself.
    began: async () => {},
    ask(ends, unwanted = () => slot.gone.signal) {
      began = clock.now();
      const ending = unwanted();
      slot.unwanted = ending;
      return query.ask(AbortSignal.any([ends, ending]), () => ending);
    },
  };
  await ask(background, client);
  const ms = began === undefined ? 0 : clock.now() - began;
  const now = await cache.entryOf(query);
  if ((now?.entry?.answer.requestedAt ?? after) > after) return { result: 'stored', ms };
  if (slot.isOvertaken || cut.aborted) return { result: 'overtaken', ms };
  return { ...(found ?? failed('epochs-unknown')), ms };
}
