import { setTimeout as delay } from 'node:timers/promises';
import type { Ledger } from './ledger.ts';

/** Something that can go wrong. */
export interface Disturbance {
  readonly name: string;
  /** Lets it happen, and resolves when it is over and mended. */
  strike(): Promise<void>;
}

export interface Weather {
  /** How often each disturbance was over so far. */
  readonly counts: ReadonlyMap<string, number>;
  /** Milliseconds since the last disturbance was over; 0 while there is one. */
  calmFor(): number;
  /** Resolves when the signal has come and everything is mended. */
  readonly over: Promise<void>;
}

/** Answers between two disturbances of one list: on a slow machine there is no more bad weather than on a fast one. */
const LULL = { shortest: 600, longest: 3_000 } as const;

/**
 * Disturbs, until the signal. The lists are of things that are disturbed side by side; each of them goes through its
 * disturbances in random order, so that all of them come equally often.
 */
export function startWeather(options: {
  lists: readonly (readonly Disturbance[])[];
  /** Answers so far. */
  answers: () => number;
  ledger: Ledger;
  random: (below: number) => number;
  signal: AbortSignal;
}): Weather {
  const { ledger, random, signal } = options;
  const counts = new Map(options.lists.flat().map(({ name }) => [name, 0]));
  let active = 0;
  let mended = 0;

  async function disturb(list: readonly Disturbance[]): Promise<void> {
    let deck: Disturbance[] = [];
    while (list.length > 0) {
      await lull();
      if (signal.aborted) return;
      if (deck.length === 0) deck = shuffled(list, random);
      const next = deck.pop();
      if (next !== undefined) await strike(next);
    }
  }

  async function strike({ name, strike: happen }: Disturbance): Promise<void> {
    active += 1;
    ledger.note(`${name} …`);
    try {
      await happen();
    } catch (error) {
      ledger.accuse(`${name} could not be done: ${String(error)}`);
    }
    ledger.note(`… ${name} is over`);
    counts.set(name, (counts.get(name) ?? 0) + 1);
    active -= 1;
    mended = ledger.now();
  }

  async function lull(): Promise<void> {
    const end = options.answers() + LULL.shortest + random(LULL.longest - LULL.shortest);
    while (options.answers() < end && !signal.aborted) await delay(10);
  }

  return {
    counts,
    calmFor: () => (active > 0 ? 0 : ledger.now() - mended),
    over: Promise.all(options.lists.map(disturb)).then(() => {}),
  };
}

function shuffled<T>(list: readonly T[], random: (below: number) => number): T[] {
  const left = [...list];
  return list.flatMap(() => left.splice(random(left.length), 1));
}
