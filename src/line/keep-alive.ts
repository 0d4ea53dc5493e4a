import type { Clock } from '../common/clock.ts';
import type { Touch } from '../engine/engine.ts';
import type { Engine } from '../engine/http-engine.ts';
import type { SessionRecord } from '../freshness/freshness-store.ts';
import type { Sessions } from '../sessions/sessions.ts';
import type { Destination } from './query.ts';
import type { KnownSession } from './session-step.ts';

/**
 * From this part of the time on after which the engine drops an idle session, a request touches it: so that of a user
 * who goes on asking, the engine has heard before a third of it has passed.
 */
const SHARE_OF_IDLE = 1 / 4;

/**
 * A request that is answered from the cache waits so long for the engine (ms). Nearly every touch is answered in
 * milliseconds, and then a session that is gone is told at once; what is in memory here shall not wait for the timeout of
 * an engine that hangs.
 */
const PATIENCE = 5_000;

/** A request of a session that is answered from the cache. */
interface Visit extends KnownSession {
  readonly destination: Pick<Destination, 'addressee'> & {
    readonly engine: Pick<Engine, 'touch'>;
    readonly settings: Pick<Destination['settings'], 'session_idle'>;
  };
}

/**
 * Keeps a session at the engine alive that is answered from the cache: the engine sees none of these requests.
 * Rides on a request of the session, with its login, since no credentials are kept.
 */
export function createKeepAlive(options: { sessions: Sessions; clock: Clock }) {
  const { sessions, clock } = options;
  /** One for each session at one time, however many requests of it come at once. */
  const underWay = new Map<string, Promise<Touch | undefined>>();

  /** Resolves to undefined where the engine has not answered in time. */
  function touch({ destination, name, record }: Visit, key: string) {
    const { engine, addressee } = destination;
    const to = { ...addressee, replica: record.replica };
    // Bound to no client: others ride on it, and its answer counts when all of them have gone.
    const touched = engine
      .touch(to, name.id, new AbortController().signal)
      .then(async (answer) => {
        if (answer.kind === 'alive') sessions.forwarded(name, record);
        if (answer.kind === 'fault') await sessions.end(name);
        return answer;
      })
      .finally(() => underWay.delete(key));
    const inTime = orNothing(touched, PATIENCE);
    underWay.set(key, inTime);
    return inTime;
  }

  return {
    /**
     * Resolves to the answer of an engine that no longer knows the session; then it is forgotten here too. Does not
     * wait for an engine that hangs: its answer counts for later requests.
     */
    async before(visit: Visit) {
      const { name, record, destination } = visit;
      const { session_idle } = destination.settings;
      if (!isTouchDue(record, session_idle, clock.wall())) return undefined;
      const key = JSON.stringify([name.place, name.id]);
      const touched = await (underWay.get(key) ?? touch(visit, key));
      return touched?.kind === 'fault' ? touched : undefined;
    },
  };
}

/**
 * Whether the engine has not heard of a session for so long that it has to be touched.
 * @param idle milliseconds; undefined when the engine never drops a session
 * @param wall the time now, by the wall clock (ms)
 */
export function isTouchDue(
  { forwardedAt }: Pick<SessionRecord, 'forwardedAt'>,
  idle: number | undefined,
  wall: number,
): boolean {
  if (idle === undefined) return false;
  const waited = wall - forwardedAt;
  return waited < 0 || waited >= idle * SHARE_OF_IDLE;
}

function orNothing<T>(promise: Promise<T>, milliseconds: number): Promise<T | undefined> {
  const late = Promise.withResolvers<undefined>();
  const timer = setTimeout(() => late.resolve(undefined), milliseconds).unref();
  return Promise.race([promise, late.promise]).finally(() => clearTimeout(timer));
}
