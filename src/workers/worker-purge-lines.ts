import type { PurgeLine, PurgeLines } from '../query-cache/purge/purge-log.ts';
import { READ_DEADLINE, WRITE_DEADLINE } from './deadlines.ts';
import type { Link } from './link.ts';
import { readTexts } from './reading.ts';

/**
 * The log of purges that the primary process keeps for all workers.
 * @param options.read reads one line; undefined when it is none
 */
export function createWorkerPurgeLines(options: {
  link: Link;
  read: (text: string) => PurgeLine | undefined;
}): PurgeLines {
  const { link, read } = options;
  return {
    async add(lines, most) {
      const texts = lines.map((line) => JSON.stringify(line));
      await link.call('purges', 'add', [texts, most], WRITE_DEADLINE);
    },
    async all(most) {
      const texts = readTexts(await link.call('purges', 'all', [most], READ_DEADLINE));
      return texts.flatMap((text) => read(text) ?? []);
    },
  };
}
