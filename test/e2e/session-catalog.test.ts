import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { execute } from '../support/envelopes.ts';
import { startSessionEngine, type SessionEngine } from '../support/session-engine.ts';
import { askStamped, beginSession, inSession } from '../support/stamped-client.ts';
import { startTestGateway, type TestGateway } from '../support/test-gateway.ts';

const KINDS = ['generic', 'emondrian', 'ssas'] as const;

interface House {
  readonly engine: SessionEngine;
  readonly gateway: TestGateway;
}
const houses = new Map<string, House>();
beforeAll(async () => {
  for (const kind of KINDS) {
    const engine = await startSessionEngine({ kind });
    const gateway = await startTestGateway({
      engine: { url: engine.url, kind, login: 'forward' },
      cache: { share: 'everyone', engine_permissions_ignored: true },
    });
    houses.set(kind, { engine, gateway });
  }
});
afterAll(async () => {
  for (const { engine, gateway } of houses.values()) {
    await gateway.close();
    await engine.close();
  }
});

let count = 0;
const newStatement = () => `SELECT FROM [Sales ${(count += 1)}]`;

describe.each(KINDS)('a session of %s that was begun without a catalog', (kind) => {
  const url = () => houses.get(kind)?.gateway.url ?? '';
  const begin = (user = 'alice') => beginSession(url(), { user });
  const ask = (id: string, statement: string, catalog?: string, user = 'alice') =>
    askStamped(
      url(),
      execute({
        statement,
        session: inSession(id),
        ...(catalog !== undefined && { properties: { Catalog: catalog } }),
      }),
      { user },
    );

  test('shares what names the catalog, and nothing that depends on where the session is', async () => {
    const [sales, other, none] = [await begin(), await begin('bob'), await begin()];
    expect((await ask(sales, newStatement(), 'Sales')).status).toBe('bypass first-catalog');
    await ask(other, newStatement(), 'Stock', 'bob');
    const statement = newStatement();
    for (let turn = 0; turn < 2; turn += 1) {
      expect((await ask(none, statement)).stamp?.catalog).toBe('');
      expect((await ask(sales, statement)).stamp?.catalog).toBe('Sales');
      expect((await ask(other, statement, undefined, 'bob')).stamp?.catalog).toBe('Stock');
    }
    expect((await ask(sales, statement, 'Sales')).status).toBe('miss stored');
    const late = await begin('bob');
    await ask(late, newStatement(), 'Sales', 'bob');
    const shared = await ask(late, statement, 'Sales', 'bob');
    expect([shared.status, shared.stamp?.catalog]).toEqual(['hit', 'Sales']);
    // Whether the engine has gone there nobody can tell by what the gateway has sent.
    expect((await ask(late, statement, undefined, 'bob')).status).toBe('bypass first-catalog');
  });

  test('shares with those that were begun alike, whatever is new for each', async () => {
    const begun = (properties: Readonly<Record<string, string>>, user: string) =>
      beginSession(url(), { properties, user });
    const german = await begun({ LocaleIdentifier: '1031', ClientProcessID: '7' }, 'alice');
    const alike = await begun({ ClientProcessID: '8', LocaleIdentifier: '1031' }, 'bob');
    const english = await begun({ LocaleIdentifier: '1033' }, 'bob');
    const statement = newStatement();
    const kept = async (id: string, user: string) => {
      const { status, stamp } = await ask(id, statement, undefined, user);
      return [status, stamp?.kept];
    };
    expect(await kept(german, 'alice')).toEqual(['miss stored', [['LocaleIdentifier', '1031']]]);
    expect(await kept(alike, 'bob')).toEqual(['hit', [['LocaleIdentifier', '1031']]]);
    expect(await kept(english, 'bob')).toEqual(['miss stored', [['LocaleIdentifier', '1033']]]);
  });

  test('stores nothing that the engine answered before it went into the catalog', async () => {
    const { engine } = houses.get(kind) as House;
    const racing = await begin();
    const [first, statement] = [newStatement(), newStatement()];
    const held = engine.hold((request) => request.statement === first);
    const going = ask(racing, first, 'Sales');
    await held.arrived;
    // The gateway knows of the catalog by now, the engine does not yet.
    const early = await ask(racing, statement);
    expect(early.stamp?.catalog).toBe('');
    held.release();
    await going;
    const late = await begin('bob');
    await ask(late, newStatement(), 'Sales', 'bob');
    expect((await ask(late, statement, undefined, 'bob')).stamp?.catalog).toBe('Sales');
    expect((await ask(racing, statement)).stamp?.catalog).toBe('Sales');
  });

  test('stores nothing that the engine answered after it went into the catalog', async () => {
    const { engine } = houses.get(kind) as House;
    const racing = await begin();
    const statement = newStatement();
    const held = engine.hold((request) => request.statement === statement);
    const going = ask(racing, statement);
    await held.arrived;
    await ask(racing, newStatement(), 'Sales');
    held.release();
    const late = await going;
    expect([late.status, late.stamp?.catalog]).toEqual(['miss session-changed', 'Sales']);
    const none = await begin('bob');
    expect((await ask(none, statement, undefined, 'bob')).stamp?.catalog).toBe('');
  });

  test.each([
    ['the first', 0],
    ['the second', 1],
  ] as const)(
    'is where the engine went, whichever of two it saw before (%s)',
    async (_which, sooner) => {
      const { engine } = houses.get(kind) as House;
      const racing = await begin();
      const statements = [newStatement(), newStatement()];
      const catalogs = ['Sales', 'Stock'];
      const holds = statements.map((one) => engine.hold(({ statement }) => statement === one));
      const going = [];
      for (const [at, one] of statements.entries()) {
        going.push(ask(racing, one, catalogs[at]));
        await holds[at]?.arrived;
      }
      holds[sooner]?.release();
      await going[sooner];
      holds[1 - sooner]?.release();
      await Promise.all(going);
      const statement = newStatement();
      for (let turn = 0; turn < 2; turn += 1) {
        expect((await ask(racing, statement)).stamp?.catalog).toBe(catalogs[sooner]);
      }
      for (const catalog of catalogs) {
        const other = await begin('bob');
        await ask(other, newStatement(), catalog, 'bob');
        expect((await ask(other, statement, undefined, 'bob')).stamp?.catalog).toBe(catalog);
      }
    },
  );
});
