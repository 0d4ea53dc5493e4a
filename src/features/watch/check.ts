import { createSemaphore, type Semaphore } from '../../common/semaphore.ts';
import type { Config } from '../../config/config.ts';
import type { CheckParts } from '../feature.ts';
import { createSource, MOST_FILES, type Watched, watchedIn } from './sources.ts';

/** Pause between two questions to one source. */
const PAUSE_MS = 2_000;
/** Characters of a signature that are shown. */
const SHOWN = 100;

/** Asks each source twice, for `check --connect`: one that differs each time would purge each time. */
export function checkWatch(config: Config, parts: CheckParts) {
  const files = createSemaphore(MOST_FILES);
  return Promise.all(watchedIn(config).map((watched) => tryWatch(watched, parts, files)));
}

const short = (text: string) => text.replaceAll(/\s+/g, ' ').slice(0, SHOWN);

async function tryWatch(watched: Watched, { clock, sleep }: CheckParts, files: Semaphore) {
  const { name, watch } = watched;
  const what = `watch ${name} (${watch.kind})`;
  const ask = createSource(watched, clock, files);
  const { signal } = new AbortController();
  try {
    const first = await ask(signal);
    await sleep(PAUSE_MS);
    const second = await ask(signal);
    if (first === second) return [what, 'up', `it sees ${short(first)}`] as const;
    const why = `it differs at each question: ${short(first)}, then ${short(second)}`;
    return [what, 'down', why] as const;
  } catch (error) {
    return [what, 'down', (error as Error).message] as const;
  }
}
