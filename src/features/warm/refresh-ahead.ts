import { shareFor } from '../../common/clock.ts';
import { GatewayError } from '../../common/errors.ts';
import { createOwnedTable } from '../../common/owned-table.ts';
import { createSemaphore } from '../../common/semaphore.ts';
import type { EndingHit } from '../../line/ports.ts';
import type { Core } from '../feature.ts';
import type { Candidates } from './candidates.ts';
import { type AskedWay, skipped } from './fill.ts';
import { type createWarmLine, resultOf } from './lane.ts';
import { wayAgain } from './ways.ts';

/**
 * Entries that one process asks for at a time. The entries of a morning end within a tenth of their
 * ttl; of an hour, four at a time renew 1,440 queries of one second in it.
 */
const AT_ONCE = 4;
const MOST_WAITING = 64;
/** Time for which the turn outlives its gateway, and between two signs of life (ms). */
const LIFE_MS = 10_000;
const SIGN_MS = 3_000;
/** Reading the list takes milliseconds. */
const LIST_MS = 30_000;
/** Time until a key is tried again: this (ms), and so many times what the engine took. */
const PAUSE_MS = 5_000;
const TIMES = 10;
const MOST_PAUSED = 10_000;
const ENDED = new GatewayError('client-gone', 'The entry is not asked for ahead.');

interface Parts extends Pick<Core, 'clock' | 'fleet' | 'emit' | 'newId'>, Pick<Candidates, 'list'> {
  readonly line: () => Pick<ReturnType<typeof createWarmLine>, 'open' | 'account' | 'patience'>;
}

/** Asks for entries that users hit shortly before their end, so that no user waits for them. */
export function createRefreshAhead({ clock, fleet, emit, newId, line, list }: Parts) {
  const turns = createSemaphore(AT_ONCE, clock);
  const underWay = new Map<string, Promise<void>>();
  /** Moments until which no other try is made (monotonic, ms). */
  const paused = createOwnedTable<number>(MOST_PAUSED);
  const end = new AbortController();
  let isOn = false;
  const lost = (error: unknown) => void emit({ type: 'redis-failed', operation: 'warm-up', error });
  const known = shareFor(LIST_MS, clock, () => list().catch(lost));

  /** Asks in the turn of all gateways. @param begins called when it is at the engine */
  async function askInTurn(hit: EndingHit, cut: AbortSignal, begins: () => void) {
    const { key, login, authorization, asked, session, requestedAt } = hit;
    // The users file may have changed, or the configuration.
    if (!isOn || !login?.counts()) return skipped('login');
    const way = wayAgain(hit, session);
    if (way === undefined) return skipped('session-differs');
    const task = `refresh:${key}`;
    const hold = (life: number) => fleet.hold(task, life).catch(lost);
    if ((await hold(LIFE_MS)) !== true) return skipped('no-turn');
    const stopSigns = clock.every(SIGN_MS, () => void hold(LIFE_MS));
    const { beginnings = [] } = (way.session && (await known())) ?? {};
    const as = { principal: login.principal, authorization, isUser: true };
    const own = { as, cut, beginnings, since: clock.now(), onDemand: new Map() };
    const lane = line().open(own);
    const entry = { way, subject: asked.subject, key, after: requestedAt, begins };
    const close = () => lane.close().finally(stopSigns);
    const told = await lane.renew(entry).catch(resultOf).finally(close);
    // What the engine answered one gateway, it would answer others.
    const isOfAll = told.result === 'failed' || told.result === 'not-stored';
    await (isOfAll ? hold(pauseFor(told)) : fleet.leave(task).catch(lost));
    return told;
  }

  async function ask(hit: EndingHit): Promise<AskedWay> {
    const late = new AbortController();
    const patience = line().patience(hit.destination.addressee.project);
    const begins = clock.after(patience, () => late.abort(ENDED));
    const cut = AbortSignal.any([end.signal, late.signal]);
    try {
      const leave = await turns.acquire(cut);
      return await askInTurn(hit, cut, begins).finally(leave);
    } catch (error) {
      return resultOf(error);
    } finally {
      begins();
    }
  }

  function tell({ key, asked, login, destination }: EndingHit, told: AskedWay): void {
    const { ms: milliseconds, ...how } = told;
    const { project = '' } = destination.addressee;
    emit({ type: 'refreshed', digest: asked.parts?.digest ?? '', project, ...how, milliseconds });
    if (told.result === 'stored' || told.result === 'there') return;
    paused.set(key, login?.principal.owner ?? '', clock.now() + pauseFor(told));
  }

  return {
    ending(hit: EndingHit): void {
      const { key, login, body } = hit;
      if (!isOn || underWay.has(key) || (paused.get(key) ?? 0) > clock.now()) return;
      if (!login?.counts()) return;
      const room = line().account.open('fill');
      const hasPlace = underWay.size < AT_ONCE + MOST_WAITING && room.grow(body.length);
      if (!hasPlace) return tell(hit, skipped('overloaded'));
      const over = ask(hit)
        .then((told) => tell(hit, told))
        .catch((error: unknown) => emit({ type: 'internal-error', id: newId(), error }))
        .finally(() => {
          room.release();
          underWay.delete(key);
        });
      underWay.set(key, over);
    },
    configure: (refreshes: boolean) => void (isOn = refreshes),
    async close(): Promise<void> {
      isOn = false;
      end.abort(ENDED);
      await Promise.all(underWay.values());
    },
  };
}

const pauseFor = ({ ms }: AskedWay) => PAUSE_MS + TIMES * ms;
