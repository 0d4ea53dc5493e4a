import { type BodyAccount, createGate } from '../common/body-account.ts';
import type { Clock } from '../common/clock.ts';
import type { Emit } from '../common/events.ts';
import type { Sealer } from '../common/sealing.ts';
import { decodeEntry, encodeEntry } from './entry-codec.ts';
import type { OrderedFill } from './flights.ts';
import { remaining } from './memory-tier.ts';
import type { StoredAnswer } from './stored-answer.ts';

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

export type SharedEntries = ReturnType<typeof createSharedEntries>;

/** Tier 2 as answers: whatever fails there is told as an event, and is a miss. */
export function createSharedEntries(options: {
  values: ValueTier;
  sealer: Sealer;
  clock: Clock;
  /** Of a body, now (bytes). */
  maxEntry: () => number;
  /** The memory of values on their way. Left out where it is not counted. */
  account?: Pick<BodyAccount, 'open'>;
  emit: Emit;
}) {
  const { values, sealer, clock, emit } = options;
  const longWrites = createGate(1);
  const forEver = new AbortController().signal;

  /** Runs what takes room for values on their way; undefined where there is none: then it is done without. */
  async function counted<T>(run: (take: (bytes: number) => void) => Promise<T>) {
    const share = options.account?.open('value');
    try {
      return await run((bytes) => {
        if (bytes > 0 && share?.grow(bytes) === false) throw new NoRoom();
      });
    } catch (error) {
      if (error instanceof NoRoom) return undefined;
      throw error;
    } finally {
      share?.release();
    }
  }

  /** The entry, or why it does not check out. */
  function look(key: string, beside: number): Promise<StoredAnswer | string | undefined> {
    return counted(async (take) => {
      take(beside);
      const found = await values.get(key);
      if (found === null) return undefined;
      take(found.length);
      return decodeEntry(key, found, options.maxEntry(), sealer, take);
    });
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

  async function keepInTurn(key: string, filled: Filled): Promise<boolean | undefined> {
    const { length } = filled.answer.body;
    if (length > LONG && longWrites.usage().waiting >= MOST_WAITING) {
      throw new Error('too many long answers wait to be written to Redis');
    }
    const leave = length > LONG ? await longWrites.enter(forEver) : undefined;
    const kept = counted(async (take) => {
      take(COPIES[sealer.kind === 'none' ? 'open' : 'sealed'] * length);
      return keepLatest(key, filled);
    });
    return kept.finally(leave);
  }

  return {
    /** Looks at an entry, and tells no one. @throws when tier 2 cannot say */
    async peek(key: string): Promise<StoredAnswer | undefined> {
      const found = await look(key, 0);
      return typeof found === 'string' ? undefined : found;
    },
    /**
     * Undefined when it is not there, does not check out, has no room, or tier 2 cannot say. Never rejects.
     * @param beside what the asker keeps in memory meanwhile, to be counted here (bytes)
     */
    async find(key: string, beside = 0): Promise<StoredAnswer | undefined> {
      try {
        const found = await look(key, beside);
        if (typeof found !== 'string') return found;
        emit({ type: 'entry-rejected', why: found });
      } catch (error) {
        emit({ type: 'redis-failed', operation: 'get', error });
      }
      return undefined;
    },
    /**
     * Keeps the answer. Also when the lease of its epochs ran out meanwhile: whether they are still in force is asked
     * by those who look for it. Never rejects.
     * @returns whether other gateways find it there, or one that began later
     */
    async keep(key: string, filled: Filled): Promise<boolean> {
      try {
        return (await keepInTurn(key, filled)) ?? false;
      } catch (error) {
        emit({ type: 'redis-failed', operation: 'set', error });
        return false;
      }
    },
  };
}

class NoRoom extends Error {}
