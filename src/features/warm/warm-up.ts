import { GatewayError } from '../../common/errors.ts';
import type { GatewayEvent } from '../../common/events.ts';
import type { FleetStore } from '../../freshness/fleet.ts';
import type { WarmSettings } from './as-whom.ts';
import { type Candidate, type Candidates, planned, scoreOf } from './candidates.ts';
import type { WarmUser } from './lane.ts';
import { createLatestPurge, createRunNotes } from './notes.ts';
import { BY_ITSELF, createRuns, rounded } from './runs.ts';

type Parts = Omit<
  Parameters<typeof createRuns>[0],
  'notes' | 'settings' | 'isOn' | 'purge' | 'failed'
> & { readonly candidates: Pick<Candidates, 'configure'>; readonly fleet: FleetStore };

export type WarmUp = ReturnType<typeof createWarmUp>;
/** Asks the most valuable queries again, after a purge or when an administrator wants it. */
export function createWarmUp(parts: Parts) {
  const { candidates, fleet, clock, emit } = parts;
  let settings = { mode: 'off' } as WarmSettings;
  let looking: Promise<void> | undefined;
  let closed = false;
  const isOn = () => settings.mode !== 'off' && !closed;
  const failed = (error: unknown) => emit({ type: 'redis-failed', operation: 'warm-up', error });
  const purge = createLatestPurge(fleet, clock, () => {
    runs.running()?.cut('purge');
  });
  const runs = createRuns({
    ...parts,
    notes: createRunNotes(fleet, clock),
    settings: () => settings,
    isOn,
    purge: purge.get,
    failed,
  });

  async function look(): Promise<void> {
    const latest = await purge.read();
    if (closed || latest === undefined || runs.running() || runs.isDone(latest.id)) return;
    if (!settings.as.possible || clock.now() - latest.at < settings.settle) return;
    await runs.begin(BY_ITSELF, latest.id, {});
  }

  return {
    on(event: GatewayEvent): void {
      if (settings.mode === 'off' || event.type !== 'purged' || event.result === 'owed') return;
      purge.made(event.id).catch(failed);
    },
    /** Looks whether a run is due. Never rejects. */
    look(): Promise<void> {
      if (!isOn()) return Promise.resolve();
      return (looking ??= look()
        .catch(failed)
        .finally(() => (looking = undefined)));
    },
    /** @returns id, and named queries that are not known. @throws GatewayError `not-warmed` */
    async begin(as: Omit<WarmUser, 'isUser'>, wish: Parameters<typeof runs.begin>[2]) {
      if (settings.mode === 'off') throw notNow('warm.mode is off, so that no queries are kept');
      const begun = await runs.begin({ ...as, isUser: true }, null, wish).catch((error) => {
        failed(error);
        throw notNow('Redis does not answer, so that it is not known whether a run is under way');
      });
      if (begun === undefined) throw notNow('a run is under way');
      return begun;
    },
    async tell() {
      const { mode, as, settle, queries } = settings;
      const latest = purge.get();
      const isWaiting =
        mode === 'auto' && as.possible && !runs.isDone(latest?.id) && !runs.running();
      const left = (latest?.at ?? 0) + settle - clock.now();
      const waiting = { purge: latest?.id, begins_in_ms: Math.max(0, Math.round(left)) };
      let complete = true;
      const lost = (error: unknown) => {
        failed(error);
        complete = false;
      };
      const [list, noted] = await Promise.all([
        candidates.list().catch(lost),
        mode === 'off' ? [] : runs.readLiving().catch(lost),
      ]);
      const own = runs.running()?.run;
      const all = (noted ?? []).map((one) => (one.id === own?.id ? own : one));
      const open = own ?? all.find(({ ended }) => ended === null);
      const now = clock.wall();
      return {
        mode,
        as: as.text,
        complete,
        waiting: isWaiting ? waiting : null,
        run: open === undefined ? null : rounded(open),
        runs: all.filter(({ ended }) => ended !== null).map(rounded),
        candidates: planned(list?.candidates ?? [], queries, now).map((one) => shown(one, now)),
      };
    },
    /** All but `mode` counts for the next run. */
    configure(next: WarmSettings): void {
      settings = next;
      candidates.configure(next);
      if (next.mode === 'off') runs.running()?.cut('off');
    },
    async close(): Promise<void> {
      closed = true;
      runs.running()?.cut('shutdown');
      await looking;
      await runs.running()?.over;
    },
  };
}

const notNow = (why: string) => new GatewayError('not-warmed', `Nothing is asked: ${why}.`);

const shown = (one: Candidate, now: number) => ({
  digest: one.digest,
  subject: one.subject,
  project: one.project,
  catalogs: one.catalogs.join(', '),
  score: Math.round(scoreOf(one, now)),
  asks: Math.round(one.asks * 10) / 10,
  engine_ms: Math.round(one.ms * 10) / 10,
});
