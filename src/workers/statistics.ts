import type { Link } from './link.ts';

/** The service at both ends: a worker tells its figures, the primary process those of all. */
export const STATISTICS = 'statistics';
/** For the figures of a worker: one that stalls must not keep the others waiting. */
const TOLD_WITHIN_MS = 500;

/**
 * Figures that the primary process serves.
 * @param links to the workers, as there are then
 * @param gateway names the gateway of these workers
 */
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
