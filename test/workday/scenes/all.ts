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
  engineScenes,
  redisScenes,
  [restart, loadJob],
];

export const SCENES: readonly Scene[] = BATCHES.flat();
