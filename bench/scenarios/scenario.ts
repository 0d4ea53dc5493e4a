import type { House } from '../house.ts';
import type { Findings } from '../report.ts';

export interface Scenario {
  /** A word for the command line. */
  readonly name: string;
  readonly title: string;
  run(house: House): Promise<Findings>;
}
