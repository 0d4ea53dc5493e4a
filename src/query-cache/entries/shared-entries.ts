import type { BodyAccount, Share } from '../../body-account.ts';
import type { Clock } from '../../clock.ts';
import type { Emit } from '../../events.ts';
import { createGate } from '../../gate.ts';
import type { Sealer } from '../../sealing.ts';
import { decodeEntry, encodeEntry, type Decoded } from './entry-codec.ts';
import { looksLikeManifest } from './entry-layout.ts';
import type { OrderedFill } from '../fill/fill-order.ts';
import { remaining, type StoredAnswer } from './stored-answer.ts';
import { CHUNK, createValueChunks } from './value-chunks.ts';
import type { ValueTier } from './value-tier.ts';

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
  /** Looks at an entry, and tells nobody. @throws when tier 2 cannot say */
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
  /** Bytes. */
  maxEntry: number;
  randomBytes: (count: number) => Buffer;
  /** The memory of values on their way. Left out where nobody counts it. */
  account?: Pick<BodyAccount, 'open'>;
  emit: Emit;
}): SharedEntries {
  const { values, sealer, clock, maxEntry, emit } = options;
  const chunks = createValueChunks({ values, maxEntry, newFill: () => options.randomBytes(16) });
  /** Long ones one after the other, so that nothing piles up in front of the connection. */
  const longWrites = createGate(1);
  const forEver = new AbortController().signal;

  async function look(key: string, beside: number): Promise<Decoded | undefined> {
    const share = options.account?.open('value');
    const take = (bytes: number) => takeRoom(share, bytes);
    try {
      if (beside > 0) take(beside);
      const found = await values.get(key);
      if (found === null) return undefined;
      take(found.length);
      const decoded = looksLikeManifest(found)
        ? gatherAndDecode(key, found, take)
        : decodeEntry(key, found, maxEntry, sealer, take);
      return decoded instanceof Promise ? await decoded : decoded;
    } catch (error) {
      if (error instanceof NoRoom) return undefined;
      throw error;
    } finally {
      share?.release();
    }
  }

  async function gatherAndDecode(
    key: string,
    manifest: Buffer,
    take: (bytes: number) => void,
  ): Promise<Decoded> {
    const gathered = await chunks.gather(key, manifest, take);
    return gathered.ok ? decodeEntry(key, gathered.value, maxEntry, sealer, take) : gathered;
  }

  function toAnswer(found: Decoded | undefined): StoredAnswer | undefined {
    if (found?.ok === true) return found.answer;
    if (found !== undefined) emit({ type: 'entry-rejected', why: found.why });
    return undefined;
  }

  function toNothing(error: unknown): undefined {
    emit({ type: 'redis-failed', operation: 'get', error });
  }

  /** What began later must not be overwritten: whether something has is looked at in the turn that sends the value. */
  async function keepLatest(key: string, { fill: ordered, ...filled }: Filled): Promise<void> {
    let answer: StoredAnswer;
    let value: Buffer;
    const lifetime = () => remaining(answer, clock.wall());
    do {
      answer = ordered.latest() ?? filled.answer;
      // Its own fill writes it; but in the usual way, which a clock that runs ahead can hinder.
      if (answer !== filled.answer && !filled.replace) return;
      const entry = await encodeEntry(key, answer, filled.tokens, sealer);
      value = await chunks.lay(entry, lifetime);
    } while ((ordered.latest() ?? answer) !== answer);
    await values.set(key, value, lifetime(), { replace: filled.replace });
  }

  async function keepInTurn(key: string, filled: Filled): Promise<void> {
    if (filled.answer.body.length <= CHUNK) return keepCounted(key, filled);
    if (longWrites.usage().waiting >= MOST_WAITING) {
      throw new Error('too many long answers wait to be written to Redis');
    }
    const leave = await longWrites.enter(forEver);
    try {
      await keepCounted(key, filled);
    } finally {
      leave();
    }
  }

  async function keepCounted(key: string, filled: Filled): Promise<void> {
    const share = options.account?.open('value');
    try {
      takeRoom(
        share,
        COPIES[sealer.kind === 'none' ? 'open' : 'sealed'] * filled.answer.body.length,
      );
      await keepLatest(key, filled);
    } finally {
      share?.release();
    }
  }

  return {
    async peek(key) {
      const found = await look(key, 0);
      return found?.ok === true ? found.answer : undefined;
    },
    find: (key, beside = 0) => look(key, beside).then(toAnswer, toNothing),
    async keep(key, filled) {
      try {
        await keepInTurn(key, filled);
        return true;
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
  if (share?.grow(bytes) === false) throw new NoRoom();
}
