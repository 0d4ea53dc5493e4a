import type { House } from '../house.ts';
import type { Findings } from '../report.ts';

export interface Scenario {
  /** A word for the command line. */
  readonly name: string;
  readonly title: string;
  run(house: House): Promise<Findings>;
}

/** A promise of the table of targets that is only measured where the peers are. */
export function withPeers<T>(house: House, rows: () => readonly T[]): readonly T[] {
  return house.settings.peers ? rows() : [];
}
