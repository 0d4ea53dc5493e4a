import type { Link } from './link.ts';

/** Served at both ends: a worker gives its figures, the primary process those of all. */
export const STATISTICS = 'statistics';
/** A stalled worker must not keep the others waiting. */
const TOLD_WITHIN_MS = 500;

export const statisticsOfLinks = (links: ReadonlySet<Pick<Link, 'call'>>, gateway: string) => ({
  async ask(method: string, args: readonly unknown[]) {
    const asked = [...links].map((link) => link.call(STATISTICS, method, args, TOLD_WITHIN_MS));
    const ended = await Promise.allSettled(asked);
    const told = ended.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
    if (told.length === 0) throw new Error('no worker answered in time');
    return { told, complete: told.length === asked.length };
  },
  gateway: () => gateway,
});
