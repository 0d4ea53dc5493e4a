import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { execute, type SessionSpec } from '../support/envelopes.ts';
import { askXmla, shortStatus } from '../support/http-client.ts';
import { startSessionEngine, type SessionEngine } from '../support/session-engine.ts';
import { askStamped, beginSession, inSession } from '../support/stamped-client.ts';
import { startTestGateway, type TestGateway } from '../support/test-gateway.ts';

let count = 0;

describe('a session in which a statement changes data', () => {
  let keeping: SessionEngine;
  let purging: TestGateway;
  let patient: TestGateway;
  beforeAll(async () => {
    keeping = await startSessionEngine({ kind: 'emondrian' });
    purging = await houseOf(true);
    patient = await houseOf(false);
  });
  afterAll(async () => {
    await purging?.close();
    await patient?.close();
    await keeping?.close();
  });

  const houseOf = (purge_on_refresh_cube: boolean) =>
    startTestGateway({
      engine: { url: keeping.url, kind: 'emondrian', login: 'forward' },
      cache: { purge_on_refresh_cube },
    });

  const properties = { Catalog: 'A' };
  const run = ({ url }: TestGateway, user: string, id: string, text: string) => {
    const session: SessionSpec = inSession(id);
    return askStamped(url, execute({ statement: text, session, properties }), { user });
  };
  const begin = ({ url }: TestGateway, user: string) => beginSession(url, { user, properties });
  /** Two sessions of a user and one of another, in all of which one query is answered from the cache. */
  async function sessions(gateway: TestGateway, user: string, someone: string) {
    const query = `SELECT FROM [Sales ${(count += 1)}]`;
    const own = await begin(gateway, user);
    const second = await begin(gateway, user);
    const foreign = await begin(gateway, someone);
    const statusIn = async (who: string, id: string) => (await run(gateway, who, id, query)).status;
    const look = async () => [
      await statusIn(user, own),
      await statusIn(user, second),
      await statusIn(someone, foreign),
    ];
    await look();
    expect(await look()).toEqual(['hit', 'hit', 'hit']);
    return { own, look };
  }

  const STATEMENTS = [
    ['REFRESH CUBE [Sales]'],
    ['UPDATE CUBE [Sales] SET ([a]) = 1'],
    ['COMMIT TRANSACTION'],
    ['ALTER CUBE [Sales] UPDATE DIMENSION [d]'],
  ];
  test.each(STATEMENTS)(
    '%s of somebody who may not purge makes it dirty, and no other',
    async (text) => {
      const { own, look } = await sessions(purging, 'alice', 'bob');
      await run(purging, 'alice', own, text);
      expect(await look()).toEqual(['bypass dirty-session', 'hit', 'hit']);
    },
  );

  test.each([
    ['REFRESH CUBE [Sales]', 'miss stored'],
    ['UPDATE CUBE [Sales] SET ([a]) = 1', 'bypass dirty-session'],
    ['COMMIT TRANSACTION', 'bypass dirty-session'],
  ])(
    '%s of somebody who may purge clears what all are answered; then it is %s',
    async (text, is) => {
      const { own, look } = await sessions(purging, 'ADMIN', 'bob');
      await run(purging, 'ADMIN', own, text);
      const [first, second, third] = await look();
      expect(first).toBe(is);
      // The clean session of the same user shares with the first where that is clean.
      expect([second, third]).toEqual([
        is === 'miss stored' ? 'hit' : 'miss stored',
        'miss stored',
      ]);
    },
  );

  const CREATED = 'CREATE SESSION MEMBER [Sales].[Measures].[x] AS 1';
  const inStatement = (text: string) => `<Statement>${text}</Statement>`;
  test.each([
    ['a purge alone', '<ClearCache/>', 'miss stored'],
    ['a refresh alone', inStatement('REFRESH CUBE [Sales];'), 'miss stored'],
    ['a refresh and more', inStatement(`REFRESH CUBE [Sales]; ${CREATED}`), 'bypass dirty-session'],
    ['a purge and more', `<ClearCache/>${inStatement(CREATED)}`, 'bypass dirty-session'],
    ['a script and more', inStatement(`{ "refresh": {} }; ${CREATED}`), 'bypass dirty-session'],
    ['the begin of a transaction', '<BeginTransaction/>', 'bypass dirty-session'],
    ['a command that nobody knows', '<Whatever/>', 'bypass dirty-session'],
    ['an object of the session', '<Create Scope="Session"/>', 'bypass dirty-session'],
  ])(
    'in which %s of somebody who may purge was sent shares nothing that it left there',
    async (_what, commands, is) => {
      const { own, look } = await sessions(purging, 'ADMIN', 'bob');
      const body = execute({ statement: '', session: inSession(own), properties });
      const sent = body.toString().replace('<Statement></Statement>', () => commands);
      await askStamped(purging.url, Buffer.from(sent), { user: 'ADMIN' });
      expect((await look())[0]).toBe(is);
    },
  );

  test('REFRESH CUBE purges nothing where the configuration says so, and makes it dirty', async () => {
    const { own, look } = await sessions(patient, 'ADMIN', 'bob');
    await run(patient, 'ADMIN', own, 'REFRESH CUBE [Sales]');
    expect(await look()).toEqual(['bypass dirty-session', 'hit', 'hit']);
    const { own: further, look: lookAgain } = await sessions(patient, 'ADMIN', 'bob');
    await run(patient, 'ADMIN', further, 'COMMIT');
    expect((await lookAgain()).slice(1)).toEqual(['miss stored', 'miss stored']);
  });

  test('a statement that names no catalog purges the catalog of its session only', async () => {
    const { url } = purging;
    const askOf = (Catalog: string) =>
      askXmla(url, execute({ statement: 'SELECT FROM [Own]', properties: { Catalog } }));
    for (const catalog of ['A', 'B']) await askOf(catalog);
    const id = await begin(purging, 'ADMIN');
    const body = execute({ statement: 'REFRESH CUBE [Own]', session: inSession(id) });
    await askXmla(url, body, { user: 'ADMIN' });
    expect(shortStatus(await askOf('A'))).toBe('miss stored');
    expect(shortStatus(await askOf('B'))).toBe('hit');
  });
});
