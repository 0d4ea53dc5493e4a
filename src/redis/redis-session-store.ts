import { createHash } from 'node:crypto';
import type { Sealer } from '../sealing.ts';
import type { SessionRecord, SessionStore } from '../sessions/session-store.ts';
import type { CircuitBreaker } from './circuit-breaker.ts';
import type { RedisConnections } from './redis-connections.ts';
import type { RunScript } from './redis-script.ts';
import {
  beginSession,
  claimSession,
  dirtyAllSessions,
  dirtySession,
  endSession,
  readSession,
  setSessionCatalog,
  touchSession,
} from './session-scripts.ts';

/** Sessions in Redis, shared by all replicas of one namespace. */
export function createRedisSessionStore(options: {
  connections: Pick<RedisConnections, 'reader' | 'epochs'>;
  breaker: CircuitBreaker;
  namespace: string;
  /** Encrypts what a record says of user, catalog and engine; the scripts compare only whether it is equal. */
  sealer: Sealer;
  /** Names who holds what it read. Random, without spaces, and new with every store: two must never share it. */
  replica: string;
  /** Milliseconds for which this replica uses what it reads. */
  lease: number;
  /** The longest lease that the configuration of any replica may name (ms). */
  longestLease: number;
  /** Milliseconds after which a record that nobody asked for is dropped. */
  life: number;
  newToken: () => string;
}): SessionStore {
  const { connections, breaker, sealer, newToken } = options;
  // All in one hash slot, so that one script may touch them.
  const key = (rest: string) => `{${options.namespace}}:${rest}`;
  const shared = [key('session-incarnation'), key('session-leases'), key('session-era')];
  // Whoever has a session id may act in that session, so ids do not stand in Redis.
  const session = (name: string) =>
    key(`session:${createHash('sha256').update(name).digest('base64url')}`);

  // Bound to the session: nobody can put what was noted of one in the place of another.
  const sealed = (name: string) => ({
    who: (record: Who) => sealer.sealText(who(record), `${session(name)} who`),
    where: (record: Where) => sealer.sealText(where(record), `${session(name)} where`),
  });
  const answerOf = (name: string, reply: unknown) =>
    readAnswer(reply, (text, field) => {
      const opened = sealer.openText(text, `${session(name)} ${field}`);
      // Where there is no key, everything opens, also what another gateway has sealed: that is no list.
      return opened?.startsWith('[') === true ? opened : undefined;
    });

  async function run(
    script: RunScript,
    name: string | undefined,
    args: readonly (string | number)[] = [],
    redis = connections.epochs,
  ): Promise<unknown> {
    return await script(redis, name === undefined ? shared : [...shared, session(name)], [
      options.replica,
      options.lease,
      options.longestLease,
      newToken(),
      options.life,
      ...args,
    ]);
  }

  return {
    read: (name) =>
      breaker.run(async () => answerOf(name, await run(readSession, name, [], connections.reader))),
    begin: (name, record) =>
      breaker.run(async () => {
        const claim = newToken();
        await run(claimSession, name, [claim]);
        const begun = answerOf(
          name,
          await run(beginSession, name, [
            claim,
            sealed(name).who(record),
            sealed(name).where(record),
            record.version,
            record.forwardedAt,
            record.dirty ? 1 : 0,
          ]),
        );
        if (begun.record === undefined) throw new Error('the session that was begun is not there');
        return begun.record;
      }),
    // Not through the breaker: a statement that makes a session dirty waits for it, so it always tries.
    markDirty: async (name, version) => answerOf(name, await run(dirtySession, name, [version])),
    markAllDirty: async () => readAnswer(await run(dirtyAllSessions, undefined)).lease,
    setCatalog: (name, expected, next) =>
      breaker.run(async () =>
        answerOf(
          name,
          await run(setSessionCatalog, name, [expected, sealed(name).where(next), next.version]),
        ),
      ),
    async touch(name, forwardedAt) {
      await breaker.run(() => run(touchSession, name, [forwardedAt]));
    },
    async end(name) {
      await breaker.run(() => run(endSession, name));
    },
    async close() {},
  };
}

/** JSON, so that every text comes back as it was, and equal ones are equal bytes for the scripts. */
const who = ({ principal, replica, spelling }: Who) =>
  JSON.stringify([principal, replica, spelling]);
const where = ({ catalog, profile }: Where) => JSON.stringify([catalog, profile]);
type Who = Pick<SessionRecord, 'principal' | 'replica' | 'spelling'>;
type Where = Pick<SessionRecord, 'catalog' | 'profile'>;

/**
 * The lease alone where there is no record, or one that does not open: whoever noted it has another key. Throws for
 * what no script of this version answers.
 */
function readAnswer(
  reply: unknown,
  open: (text: string, field: 'who' | 'where') => string | undefined = () => undefined,
): { record: SessionRecord | undefined; lease: number } {
  if (!isStrings(reply) || (reply.length !== 1 && reply.length !== 6)) throw unreadable();
  const [lease, dirty, whoSealed, whereSealed, version, forwardedAt] = reply;
  const whoText = whoSealed && open(whoSealed, 'who');
  const whereText = whereSealed && open(whereSealed, 'where');
  if (
    whoText === undefined ||
    whereText === undefined ||
    version === undefined ||
    forwardedAt === undefined
  ) {
    return { record: undefined, lease: numberOf(lease) };
  }
  const [principal, replica, spelling] = listOf(whoText);
  const [catalog, profile] = listOf(whereText);
  if (typeof principal !== 'string' || typeof replica !== 'string') throw unreadable();
  // Noted by an older version, which did not say under which spelling it began.
  if (spelling === undefined) return { record: undefined, lease: numberOf(lease) };
  if (typeof spelling !== 'string' || typeof profile !== 'string') throw unreadable();
  if (catalog !== null && typeof catalog !== 'string') throw unreadable();
  return {
    lease: numberOf(lease),
    record: {
      principal,
      profile,
      catalog,
      replica,
      dirty: dirty !== '0',
      spelling,
      version,
      forwardedAt: numberOf(forwardedAt),
    },
  };
}

function listOf(text: string): readonly unknown[] {
  const list: unknown = JSON.parse(text);
  if (!Array.isArray(list)) throw unreadable();
  return list;
}

function numberOf(text: string | undefined): number {
  const number = Number(text);
  if (!Number.isFinite(number)) throw unreadable();
  return number;
}

function isStrings(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((item) => typeof item === 'string');
}

function unreadable(): Error {
  return new Error('a script of the sessions answered something else than a session');
}
