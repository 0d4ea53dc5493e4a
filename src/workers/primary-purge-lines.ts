import { MAX_PURGES } from '../query-cache/purge/purge-log.ts';
import type { Service } from './link.ts';
import { readNumber, readTexts } from './reading.ts';

/** The log of the purges of all workers, in the primary process; each line a text that only workers read. */
export function createPrimaryPurgeLines(): Service {
  let kept: readonly string[] = [];
  return {
    add(lines, most) {
      kept = latest([...kept, ...readTexts(lines)], most);
    },
    all: (most) => latest(kept, most),
  };
}

function latest(lines: readonly string[], said: unknown): readonly string[] {
  const most = Math.min(readNumber(said), MAX_PURGES);
  // `slice(-0)` would be all of them.
  return most < 1 ? [] : lines.slice(-most);
}
