import { type BodyAccount, createGate, type Share } from '../common/body-account.ts';
import type { Clock } from '../common/clock.ts';
import type { Emit } from '../common/events.ts';
import type { Sealer } from '../common/sealing.ts';
import { decodeEntry, encodeEntry, type Decoded } from './entry-codec.ts';
import type { OrderedFill } from './fill-order.ts';
import { remaining, type StoredAnswer } from './stored-answer.ts';

/**
 * Port: a tier outside this process that keeps bytes by key. A tier that cannot be reached, or is slower than its
 * deadline, rejects. It is closed by what made it.
 */
export interface ValueTier {
  /** Null where there is none. */
  get(key: string): Promise<Buffer | null>;
  /**
   * Keeps the value for `lifetime` milliseconds, unless a value is there whose fill began later (bytes 8 to
   * 15 of both, compared as big-endian numbers; see entry-codec.ts). With `replace` it takes the place of any:
   * the clocks of two gateways differ, and this one was asked for.
   */
  set(
    key: string,
    value: Buffer,
    lifetime: number,
    options?: { readonly replace: boolean },
  ): Promise<void>;
}

/** Longer values stay in memory (bytes): Redis does one thing at a time, so a long one holds up all others. */
export const LONGEST_VALUE = 16 * 1024 * 1024;
/** Answers above this are written one after the other, so that nothing piles up in front of the connection (bytes). */
export const LONG = 512 * 1024;
/** More answers that are long are not kept while so many wait to be written: they would fill the memory. */
const MOST_WAITING = 16;
/** What an entry takes while it is written, as a multiple of its body at most: compressed, put together, sealed. */
const COPIES = { open: 2, sealed: 4 };

/** A fill whose answer, or one that began later, is still to be kept in tier 2. */
export interface Filled {
  readonly fill: OrderedFill;
  readonly answer: StoredAnswer;
  /** The epochs under which it was filled. */
  readonly tokens: readonly string[];
  /** Whether it was asked for as a fresh one, which takes the place of whatever is there. */
  readonly replace: boolean;
}

/** Tier 2 as answers: whatever fails there is told as an event, and is a miss. */
export interface SharedEntries {
  /** Looks at an entry, and tells no one. @throws when tier 2 cannot say */
  peek(key: string): Promise<StoredAnswer | undefined>;
  /**
   * Undefined when it is not there, does not check out, has no room, or tier 2 cannot say. Never rejects.
   * @param beside what the asker keeps in memory meanwhile, to be counted here (bytes)
   */
  find(key: string, beside?: number): Promise<StoredAnswer | undefined>;
  /**
   * Keeps the answer. Also when the lease of its epochs ran out meanwhile: whether they are still in force is asked
   * by those who look for it. Never rejects.
   * @returns whether other gateways find it there, or one that began later
   */
  keep(key: string, filled: Filled): Promise<boolean>;
}

export function createSharedEntries(options: {
  values: ValueTier;
  sealer: Sealer;
  clock: Clock;
  /** Of a body, now (bytes). */
  maxEntry: () => number;
  /** The memory of values on their way. Left out where it is not counted. */
  account?: Pick<BodyAccount, 'open'>;
  emit: Emit;
}): SharedEntries {
  const { values, sealer, clock, emit } = options;
  const longWrites = createGate(1);
  const forEver = new AbortController().signal;

  async function look(key: string, beside: number): Promise<Decoded | undefined> {
    const share = options.account?.open('value');
    const take = (bytes: number) => takeRoom(share, bytes);
    try {
      take(beside);
      const found = await values.get(key);
      if (found === null) return undefined;
      take(found.length);
      const decoded = decodeEntry(key, found, options.maxEntry(), sealer, take);
      return decoded instanceof Promise ? await decoded : decoded;
    } catch (error) {
      if (error instanceof NoRoom) return undefined;
      throw error;
    } finally {
      share?.release();
    }
  }

  /**
   * What began later must not be overwritten: whether something has is looked at in the turn that sends the value.
   * @returns false when the value is too long for Redis
   */
  async function keepLatest(key: string, { fill, tokens, replace, ...filled }: Filled) {
    for (;;) {
      const answer = fill.latest() ?? filled.answer;
      // Its own fill writes it; but in the usual way, which a clock that runs ahead can hinder.
      if (answer !== filled.answer && !replace) return true;
      const value = await encodeEntry(key, answer, tokens, sealer);
      if ((fill.latest() ?? answer) !== answer) continue;
      if (value.length > LONGEST_VALUE) return false;
      await values.set(key, value, remaining(answer, clock.wall()), { replace });
      return true;
    }
  }

  async function keepCounted(key: string, filled: Filled): Promise<boolean> {
    const share = options.account?.open('value');
    const copies = COPIES[sealer.kind === 'none' ? 'open' : 'sealed'];
    try {
      takeRoom(share, copies * filled.answer.body.length);
      return await keepLatest(key, filled);
    } finally {
      share?.release();
    }
  }

  async function keepInTurn(key: string, filled: Filled): Promise<boolean> {
    if (filled.answer.body.length <= LONG) return keepCounted(key, filled);
    if (longWrites.usage().waiting >= MOST_WAITING) {
      throw new Error('too many long answers wait to be written to Redis');
    }
    const leave = await longWrites.enter(forEver);
    return keepCounted(key, filled).finally(leave);
  }

  return {
    async peek(key) {
      const found = await look(key, 0);
      return found?.ok === true ? found.answer : undefined;
    },
    async find(key, beside = 0) {
      try {
        const found = await look(key, beside);
        if (found?.ok === true) return found.answer;
        if (found !== undefined) emit({ type: 'entry-rejected', why: found.why });
      } catch (error) {
        emit({ type: 'redis-failed', operation: 'get', error });
      }
      return undefined;
    },
    async keep(key, filled) {
      try {
        return await keepInTurn(key, filled);
      } catch (error) {
        if (!(error instanceof NoRoom)) emit({ type: 'redis-failed', operation: 'set', error });
        return false;
      }
    },
  };
}

/** There is no room for a value on its way. It is done without. */
class NoRoom extends Error {}

function takeRoom(share: Share | undefined, bytes: number): void {
  if (bytes > 0 && share?.grow(bytes) === false) throw new NoRoom();
}
