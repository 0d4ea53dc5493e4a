import { beforeAll, describe, expect, test } from '@jest/globals';
import type { EngineKind } from '../../src/common/engine-kinds.ts';
import { loadRecordings } from '../../src/demo/replay-engine.ts';
import type { GatewayEvent } from '../../src/common/events.ts';
import { apiOf, dataOf, users as members } from '../contract/api-client.ts';
import { execute } from '../support/envelopes.ts';
import { always, CATALOG, OWN_QUESTIONS, type Question } from '../support/matrix-questions.ts';
import { startSessionEngine, UNKNOWN_SESSION } from '../support/session-engine.ts';
import { sizes } from '../support/sizes.ts';
import {
  askStamped,
  beginSession,
  inSession,
  type StampedAnswer,
} from '../support/stamped-client.ts';
import { basic, startTestGateway, type TestGateway } from '../support/test-gateway.ts';

/*
 * Every question is asked through a gateway and, by the same user in a session of the same history, of a second
 * engine without one. Answers hold all that shaped them, so that the two must be equal but for the user where
 * the mode of sharing says so.
 */

const KINDS = ['generic', 'mondrian', 'emondrian', 'kylin', 'ssas'] as const;
const SHARES = ['user', 'roles', 'everyone'] as const;
const LOGINS = ['forward', 'service'] as const;
const USERS = ['alice', 'bob'] as const;
type User = (typeof USERS)[number];
const OTHER = { alice: 'bob', bob: 'alice' } as const;

/** In whose session a question is asked. `late` began without the catalog that later questions name. */
const OWN = ['none', 'clean', 'late', 'dirty'] as const;
const FOREIGN = ['clean of the other', 'dirty of the other', 'unknown'] as const;
type Situation = (typeof OWN)[number] | (typeof FOREIGN)[number];

let questions: readonly Question[];
beforeAll(async () => {
  const recorded = (await loadRecordings()).map(({ name, request }) => ({
    name,
    body: request.body,
    cacheable: always,
  }));
  // One of each sort first, for the small size.
  const [first, ...others] = OWN_QUESTIONS;
  questions = [first, recorded[0], recorded.at(-1), ...others, ...recorded.slice(1, -1)]
    .filter((one) => one !== undefined)
    .slice(0, sizes.matrixQuestions);
});

const MEMBER = (user: User) => `CREATE SESSION MEMBER [Sales].[Measures].[Of ${user}] AS '1'`;
const SERVICE = { name: 'service', password: 'secret' };

/** Somebody who is asked, with the sessions that the users have there. */
interface Side {
  ask(user: User, body: string, situation: Situation): Promise<StampedAnswer>;
  idOf(user: User, situation: Situation): string;
}

async function sideOf(base: string, authorization: (user: User) => string): Promise<Side> {
  const ids = new Map<string, string>();
  const message = (user: User) => ({
    headers: { authorization: authorization(user), 'user-agent': 'MSOLAP 16.0' },
  });
  for (const user of USERS) {
    for (const situation of ['clean', 'late', 'dirty'] as const) {
      const properties = situation === 'late' ? {} : CATALOG;
      const id = await beginSession(base, { ...message(user), properties });
      ids.set(`${user} ${situation}`, id);
    }
  }
  const side: Side = {
    idOf(user, situation) {
      if (situation === 'unknown') return 'a guessed one';
      const [which = '', owner] = situation.split(' of the ');
      return ids.get(`${owner === undefined ? user : OTHER[user]} ${which}`) ?? '';
    },
    ask(user, body, situation) {
      const id = side.idOf(user, situation);
      const session = `<Session xmlns="urn:schemas-microsoft-com:xml-analysis" mustUnderstand="1" SessionId="${id}"/>`;
      const header = `<SOAP-ENV:Header>${session}</SOAP-ENV:Header>`;
      const sent = situation === 'none' ? body : body.replace('<SOAP-ENV:Body>', `${header}$&`);
      return askStamped(base, Buffer.from(sent), message(user));
    },
  };
  for (const user of USERS) {
    const made = execute({
      statement: MEMBER(user),
      session: inSession(side.idOf(user, 'dirty')),
      properties: CATALOG,
    });
    await askStamped(base, made, message(user));
  }
  return side;
}

/** Roles that come too late for a query are no fault: it is cached by user then. */
const isLate = (event: GatewayEvent) =>
  event.type === 'warning' && event.message.startsWith('roles cannot be read');

interface Cell {
  readonly kind: EngineKind;
  readonly share: (typeof SHARES)[number];
  readonly login: (typeof LOGINS)[number];
}

const CELLS: readonly Cell[] = KINDS.flatMap((kind, k) =>
  SHARES.flatMap((share, s) =>
    LOGINS.flatMap((login, l) =>
      (k + s + l) % sizes.matrixStride === 0 ? [{ kind, share, login }] : [],
    ),
  ),
);

const counts = { asked: 0, hits: 0, hitsOfAnother: 0, refused: 0 };

/** Puts the two side by side, and keeps what was asked before. */
function judge(
  { kind, share, login }: Cell,
  gateway: Side,
  direct: Side,
  rolesLate: () => boolean,
) {
  const [askedBefore, byHimself] = [new Set<string>(), new Set<string>()];
  /** Users of one group may be given each other's answers. */
  let grouped = share === 'everyone';

  async function compare(question: Question, user: User, situation: Situation): Promise<void> {
    const got = await gateway.ask(user, question.body, situation);
    const where = [question.name, user, situation];
    const see = (what: unknown, wanted: unknown) =>
      expect([...where, what]).toEqual([...where, wanted]);
    counts.asked += 1;
    see(got.answer.status, 200);
    const own = gateway.idOf(user, situation);
    const isOwn = OWN.some((one) => one === situation);
    // Whoever is not shown his own session would go on in somebody else's.
    see(
      situation === 'none' ? undefined : own,
      got.session ?? (situation === 'none' ? undefined : own),
    );
    if (!isOwn) {
      see(got.status.replace('gateway', 'bypass'), 'bypass unknown-session');
      see(got.stamp?.created ?? [], []);
      if (situation === 'dirty of the other') see(got.fault, UNKNOWN_SESSION);
      if (got.fault !== undefined) counts.refused += 1;
      return;
    }

    const wanted = await direct.ask(user, question.body, situation);
    see(got.fault, wanted.fault);
    see({ ...got.stamp, user: '' }, { ...wanted.stamp, user: '' });
    see(got.stamp?.created, situation === 'dirty' ? [MEMBER(user)] : []);
    const computedFor = got.stamp?.user;
    if (!grouped || login === 'service') see(computedFor, wanted.stamp?.user);
    else see(['alice', 'bob'].includes(computedFor ?? ''), true);
    if (kind !== 'ssas') see(got.session === undefined, wanted.session === undefined);

    // Where the engine keeps nothing of how a session began, all clean ones are alike.
    const isMondrian = kind === 'mondrian' || kind === 'kylin';
    const alike = situation === 'late' && isMondrian ? 'clean' : situation;
    const key = [grouped ? 'all' : user, question.name, alike].join();
    const ownKey = [user, question.name, alike].join();
    if (situation === 'dirty') see(got.status, expect.stringMatching(/^bypass /));
    if (!question.cacheable(kind)) see(got.status, expect.stringMatching(/^bypass /));
    if (got.status === 'hit') {
      counts.hits += 1;
      if (computedFor !== user && login === 'forward') counts.hitsOfAnother += 1;
      // Where roles come too late it is what this user himself asked, whatever his group was then.
      see(askedBefore.has(key) || (rolesLate() && byHimself.has(ownKey)), true);
    } else if (situation === 'none' || situation === 'clean') {
      const mayHit = askedBefore.has(key) && question.cacheable(kind);
      if (share !== 'roles') see([mayHit, got.status], [false, got.status]);
    }
    askedBefore.add(key);
    byHimself.add(ownKey);
  }

  return {
    async all(turns: number): Promise<void> {
      for (let turn = 0; turn < turns; turn += 1) {
        for (const question of questions) {
          for (const situation of [...OWN, ...FOREIGN]) {
            for (const user of USERS) await compare(question, user, situation);
          }
        }
      }
    },
    regroup(group: boolean): void {
      askedBefore.clear();
      grouped = group;
    },
  };
}

async function shareRoles(url: string): Promise<number> {
  const api = apiOf(url);
  return api.created({ name: 'both', contains: members(...USERS) });
}

/** Roles may come too late for a query, and are then left alone for a second; so many further ones are tried. */
async function untilShared({ url }: TestGateway): Promise<void> {
  for (let tries = 0; tries < 5_000; tries += 1) {
    const query = execute({ statement: `SELECT FROM [try ${tries}]`, properties: CATALOG });
    await askStamped(url, query, { user: 'alice' });
    if ((await askStamped(url, query, { user: 'bob' })).status === 'hit') return;
  }
  throw new Error('users with the same roles do not share');
}

describe('two users with sessions of every sort', () => {
  test.each(CELLS)(
    "are never answered what is another's, and are answered from the cache what is theirs ($kind, $share, $login)",
    async (cell) => {
      const { kind, share, login } = cell;
      const engines = [await startSessionEngine({ kind }), await startSessionEngine({ kind })];
      const [behind, alone] = engines as [(typeof engines)[number], (typeof engines)[number]];
      const gateway = await startTestGateway({
        engine: { url: behind.url, kind, login, ...(login === 'service' && { service: SERVICE }) },
        cache: { share, engine_permissions_ignored: true, lease: '100ms' },
      });
      try {
        const service = `Basic ${Buffer.from(Object.values(SERVICE).join(':')).toString('base64')}`;
        const judged = judge(
          cell,
          await sideOf(gateway.url, basic),
          await sideOf(alone.url, login === 'service' ? () => service : basic),
          () => gateway.events.some(isLate),
        );
        const before = { ...counts };
        if (share !== 'roles') await judged.all(2);
        else {
          const role = await shareRoles(gateway.url);
          await untilShared(gateway);
          judged.regroup(true);
          await judged.all(2);
          // Roles that came too late are left alone for as long as all of this may take.
          const noneShared = () =>
            login === 'forward' && counts.hitsOfAnother === before.hitsOfAnother;
          while (noneShared() && gateway.events.some(isLate)) await judged.all(1);
          // Their roles differ from now on.
          dataOf(await apiOf(gateway.url).drop(role, 'both', 'bob'));
          judged.regroup(false);
          await judged.all(2);
        }
        expect(counts.hits - before.hits).toBeGreaterThanOrEqual(questions.length);
        if (share !== 'user' && login === 'forward') {
          expect(counts.hitsOfAnother).toBeGreaterThan(before.hitsOfAnother);
        }
        expect(counts.refused).toBeGreaterThan(before.refused);
      } finally {
        await gateway.close();
        for (const engine of engines) await engine.close();
      }
    },
  );

  test('are counted', () => {
    process.stdout.write(
      `identity matrix: ${JSON.stringify({ cells: CELLS.length, ...counts })}\n`,
    );
    expect(counts.hitsOfAnother).toBeGreaterThan(0);
  });
});
