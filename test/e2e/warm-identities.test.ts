import { afterEach, describe, expect, test } from '@jest/globals';
import type { EngineKind } from '../../src/common/engine-kinds.ts';
import { apiOf, users } from '../contract/api-client.ts';
import { execute, type SessionSpec } from '../support/envelopes.ts';
import { askXmla } from '../support/http-client.ts';
import { startSessionEngine, type SessionEngine } from '../support/session-engine.ts';
import { strided } from '../support/sizes.ts';
import { askStamped, beginSession, inSession } from '../support/stamped-client.ts';
import { startTestGateway, type TestGateway } from '../support/test-gateway.ts';
import { nextRun, purge, readWarmUp, warmNow, withRolesInTime } from '../support/warm-up.ts';

const USERS = ['ADMIN', 'alice', 'bob', 'carol'] as const;
type User = (typeof USERS)[number];
const SERVICE = { login: 'service', service: { name: 'gateway', password: 'secret' } };
const LOGINS = {
  forward: { login: 'forward' },
  service: SERVICE,
  none: { login: 'none' },
} as const;
type Login = keyof typeof LOGINS;
type Share = 'user' | 'roles' | 'everyone';

let engine: SessionEngine;
let gateway: TestGateway;
async function close(): Promise<void> {
  await gateway?.close();
  await engine?.close();
}
afterEach(close);

/** alice and bob have a role in common, ADMIN another, carol none. */
async function start(kind: EngineKind, login: Login, share: Share, settle: string): Promise<void> {
  engine = await startSessionEngine({ kind });
  const ignored = login === 'forward' && share !== 'user';
  const both = { share, client_control: 'everybody' };
  gateway = await startTestGateway(
    {
      engine: { url: engine.url, kind, ...LOGINS[login] },
      cache: { ...both, ...(ignored && { engine_permissions_ignored: true }) },
      warm: { mode: 'auto', settle },
    },
    {},
    ['carol'],
  );
  await apiOf(gateway.url).created({ name: 'both', contains: users('alice', 'bob') });
}

const query = (cube: string, session?: SessionSpec) =>
  execute({
    statement: `SELECT FROM [${cube}]`,
    properties: { Catalog: 'Shop', LocaleIdentifier: '1031' },
    ...(session && { session }),
  });

/** The question, without a session and in one. */
async function questionsOf(user: User): Promise<readonly Buffer[]> {
  const begun = await beginSession(gateway.url, { user, properties: { Catalog: 'Shop' } });
  return [query('Sales'), query('Sales', inSession(begun))];
}

async function askAll(user: User): Promise<void> {
  for (const body of await questionsOf(user)) await askStamped(gateway.url, body, { user });
}

/** Whether it would be answered from the cache, without asking it. */
async function isThere(user: User, body: Buffer): Promise<boolean> {
  const path = `/admin/explain?user=${user}`;
  const { text } = await askXmla(gateway.url, body, { path, user: 'ADMIN' });
  return (JSON.parse(text) as { cache: { memory: object | null } }).cache.memory !== null;
}

/** Who finds the answers of a run that ADMIN asks for, and of one that begins by itself. */
const EXPECTED: Readonly<Record<Share, Record<'manual' | 'itself', readonly User[]>>> = {
  user: { manual: ['ADMIN'], itself: [] },
  roles: { manual: ['ADMIN'], itself: ['ADMIN', 'alice', 'bob'] },
  everyone: { manual: USERS, itself: USERS },
};

const KINDS = ['generic', 'ssas', 'mondrian', 'emondrian', 'kylin'] as const;
const CELLS = KINDS.flatMap((kind) =>
  (['forward', 'service', 'none'] as const).flatMap((login) =>
    (['user', 'roles', 'everyone'] as const).flatMap((share) =>
      (['manual', 'itself'] as const).map((how) => ({ kind, login, share, how })),
    ),
  ),
);
const SAMPLE = [...new Set([...strided(CELLS, 7), ...CELLS.slice(6, 18)])];

describe('no user is answered by the warm-up what an own request would not have given', () => {
  test.each(SAMPLE)(
    'login: $login, share: $share, $how, over $kind',
    ({ kind, login, share, how }) =>
      withRolesInTime(
        () => gateway,
        close,
        async () => {
          await start(kind, login, share, how === 'manual' ? '1h' : '1s');
          for (const user of [...USERS, ...USERS]) await askAll(user);
          const begins = how === 'manual' || (login !== 'forward' && share !== 'user');
          if (how === 'manual') {
            await purge(gateway);
            const run = await nextRun(gateway, () => warmNow(gateway));
            expect([run.failed, run.stored]).toEqual([{}, 2]);
          } else if (begins) await nextRun(gateway, () => purge(gateway));
          else {
            await purge(gateway);
            expect((await readWarmUp(gateway)).waiting).toBeNull();
          }
          const questions = new Map<User, readonly Buffer[]>();
          for (const user of USERS) questions.set(user, await questionsOf(user));
          const found = new Map<User, boolean[]>();
          for (const [user, bodies] of questions) {
            found.set(user, await Promise.all(bodies.map((body) => isThere(user, body))));
          }
          const hits = [...questions].filter(([user]) => found.get(user)?.includes(true));
          for (const [user, bodies] of hits) {
            for (const body of bodies) {
              const headers = { 'cache-control': 'no-store' };
              const hit = await askStamped(gateway.url, body, { user });
              const own = await askStamped(gateway.url, body, { user, headers });
              expect([hit.status, own.status]).toEqual(['hit', 'bypass no-store']);
              const shared = share === 'user' ? {} : { user: '' };
              expect({ ...hit.stamp, ...shared }).toEqual({ ...own.stamp, ...shared });
            }
          }
          const all = login === 'forward' && how === 'itself' ? [] : EXPECTED[share][how];
          // Both or none.
          expect(new Set([...found.values()].map(String))).toEqual(
            new Set([...found.values()].map(([one]) => String([one, one]))),
          );
          expect(hits.map(([user]) => user)).toEqual(begins ? all : []);
        },
      ),
    60_000,
  );
});
