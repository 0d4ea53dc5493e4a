import type { House, HouseOptions } from './house.ts';
import type { Outcome } from './outcome.ts';
import type { Cast } from './plan.ts';

export type Size = 'small' | 'full';

/** What a scene is made of. */
export interface Stage {
  readonly size: Size;
  /** By the seed. */
  readonly below: (limit: number) => number;
  /** Comparisons of cost 10 that this machine makes in a second, on all cores. */
  readonly bcrypt: number;
  /** How much longer people think on a slow or busy machine, which could not answer more; 1 on a usual one. */
  readonly slowness: number;
}

export interface Scene {
  readonly name: string;
  readonly title: string;
  /** Why what is refused in it is told and no failure yet; undefined where it is one. */
  readonly notBarred?: string;
  play(stage: Stage): Play;
}

export interface Play {
  readonly cast: Cast;
  readonly settings?: HouseOptions['settings'];
  /** What happens to the house meanwhile. */
  readonly events?: readonly Event[];
  /** Whether a request may be refused; one that was, or that was cut. All others may not. */
  readonly allows?: (outcome: Outcome, moments: Moments, wasAnswered: WasAnswered) => boolean;
  /** Whether the answer may be one past its ttl, as it says. All others may not. */
  readonly mayBeStale?: (outcome: Outcome, moments: Moments) => boolean;
  /** What it had to show and did not, in words. */
  readonly misses?: (
    outcomes: readonly Outcome[],
    moments: Moments,
    known: Known,
  ) => readonly string[];
}

/** Whether the cache has had what is asked since the last purge. */
export type WasAnswered = (outcome: Outcome) => boolean;

export interface Known {
  readonly wasAnswered: WasAnswered;
  /** How often each statement that takes its time reached the engine. */
  readonly slow: Readonly<Record<string, number>>;
}

export interface Event {
  /** Milliseconds from the beginning of the scene. */
  readonly at: number;
  /** Milliseconds that must lie between it and the end of the event before, where that takes long. */
  readonly pause?: number;
  readonly name: string;
  readonly work: (house: House) => Promise<unknown>;
}

/** When each event began and was over, by the clock of the machine. */
export type Moments = ReadonlyMap<string, { readonly began: number; readonly ended: number }>;

export const momentOf = (moments: Moments, name: string) => {
  const moment = moments.get(name);
  if (moment === undefined) throw new Error(`${name} has not happened`);
  return moment;
};

/** How much longer all takes in a scene whose moments depend on what people have done before, on a slow or busy machine. */
export const paceOf = ({ slowness }: Stage): number => Math.min(slowness, SLOWEST);
const SLOWEST = 4;

export const seconds = (count: number): string => `${Math.round(count)}s`;

/** The value that belongs to the size. */
export const bySize = <Value>({ size }: Stage, small: Value, full: Value): Value =>
  size === 'small' ? small : full;
