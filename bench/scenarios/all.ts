import { againstOther } from './against.ts';
import { excelWork } from './excel.ts';
import { freshIdHits } from './fresh-ids.ts';
import { memoryHits } from './memory-hits.ts';
import { microScenario } from './micro.ts';
import { misses } from './misses.ts';
import { people } from './people.ts';
import { processCosts } from './process-costs.ts';
import type { Scenario } from './scenario.ts';

/** In the order in which they run. */
export const SCENARIOS: readonly Scenario[] = [
  ...memoryHits,
  ...freshIdHits,
  ...misses,
  ...people,
  ...excelWork,
  ...processCosts,
  microScenario,
];

/** Beside another version, which the command line names. */
export const AGAINST: readonly Scenario[] = againstOther;
