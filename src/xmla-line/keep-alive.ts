import type { Clock } from '../clock.ts';
import type { Engine, EngineAddressee, Touch } from '../engine/engine.ts';
import type { SessionRecord } from '../sessions/session-store.ts';
import type { SessionName, Sessions } from '../sessions/sessions.ts';

/** Of the time after which the engine drops an idle session, this part may pass without a request. */
const SHARE_OF_IDLE = 1 / 3;

/**
 * Keeps a session at the engine alive that is answered from the cache: the engine sees none of these requests.
 * Rides on a request of the session, with its login, since no credentials are kept.
 */
export interface KeepAlive {
  /** Resolves to the answer of an engine that no longer knows the session; then it is forgotten here too. */
  before(visit: {
    readonly engine: Engine;
    readonly addressee: EngineAddressee;
    readonly name: SessionName;
    readonly record: SessionRecord;
    /** Milliseconds; undefined when the engine never drops a session. */
    readonly idle: number | undefined;
    readonly signal: AbortSignal;
  }): Promise<Extract<Touch, { readonly kind: 'fault' }> | undefined>;
}

export function createKeepAlive(options: { sessions: Sessions; clock: Clock }): KeepAlive {
  const { sessions, clock } = options;
  /** One for each session at one time, however many requests of it come at once. */
  const underWay = new Map<string, Promise<Touch>>();

  return {
    async before({ engine, addressee, name, record, idle, signal }) {
      const waited = clock.wall() - record.forwardedAt;
      if (idle === undefined || (waited >= 0 && waited < idle * SHARE_OF_IDLE)) return undefined;
      const key = JSON.stringify([name.place, name.id]);
      const running =
        underWay.get(key) ??
        engine.touch(addressee, name.id, signal).finally(() => underWay.delete(key));
      underWay.set(key, running);
      const touched = await running;
      if (touched.kind === 'alive') sessions.forwarded(name, record);
      if (touched.kind !== 'fault') return undefined;
      await sessions.end(name);
      return touched;
    },
  };
}
