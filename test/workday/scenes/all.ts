import type { Scene } from '../scene.ts';
import { everyHalfMinute, lunch } from './clicks.ts';
import { engineScenes } from './engine-away.ts';
import { minute, neverEnds } from './engine.ts';
import { loadJob } from './load-job.ts';
import { nineOclock } from './nine-oclock.ts';
import { redisScenes } from './redis-away.ts';
import { refreshAhead } from './refresh.ts';
import { restart } from './restart.ts';

/** Those that stand together run together, each in its own house. */
export const BATCHES: readonly (readonly Scene[])[] = [
  [nineOclock],
  [everyHalfMinute, lunch, refreshAhead, minute, neverEnds],
  engineScenes.slice(0, 2),
  // Where a look-up in Redis comes too late, nothing is left: the engine cannot be asked instead.
  engineScenes.slice(2),
  redisScenes,
  [restart, loadJob],
];

export const SCENES: readonly Scene[] = BATCHES.flat();
