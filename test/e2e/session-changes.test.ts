import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { execute, type SessionSpec } from '../support/envelopes.ts';
import { startSessionEngine, type SessionEngine } from '../support/session-engine.ts';
import { askStamped, beginSession, inSession } from '../support/stamped-client.ts';
import { startTestGateway, type TestGateway } from '../support/test-gateway.ts';

const KINDS = ['mondrian', 'kylin', 'emondrian'] as const;
const PROPERTIES = { Catalog: 'Sales' };
const UPDATE = 'UPDATE CUBE [Sales] SET ([Measures].[Plan]) = 1';

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
beforeEach(() => {
  count += 1;
});
const bodyOf = (session?: SessionSpec, statement = `SELECT FROM [Sales ${count}]`) =>
  execute({ statement, properties: PROPERTIES, ...(session && { session }) });

/** Puts WS-Security into the header of an envelope that has one. */
const withSecurity = (body: Buffer, user: string) =>
  Buffer.from(
    body
      .toString()
      .replace(
        '</SOAP-ENV:Header>',
        `<Security xmlns="http://schemas.xmlsoap.org/ws/2002/04/secext"><UsernameToken><Username>${user}</Username><Password>x</Password></UsernameToken></Security>$&`,
      ),
  );

describe.each(KINDS)('%s', (kind) => {
  const url = () => houses.get(kind)?.gateway.url ?? '';
  const engine = () => (houses.get(kind) as House).engine;
  const begin = (user = 'alice') => beginSession(url(), { properties: PROPERTIES, user });
  const ask = (id?: string, user = 'alice', statement?: string) =>
    askStamped(url(), bodyOf(id === undefined ? undefined : inSession(id), statement), { user });

  test('WS-Security lends its rights to nobody but its own session', async () => {
    const [bound, clean] = [await begin(), await begin()];
    await ask(bound);
    const secured = await askStamped(url(), withSecurity(bodyOf(inSession(bound)), 'eve'));
    expect([secured.status, secured.stamp?.security]).toEqual(['bypass security', 'eve']);
    const begun = await askStamped(url(), withSecurity(bodyOf({ kind: 'begin' }), 'eve'));
    for (const id of [bound, begun.session ?? '']) {
      const later = await ask(id);
      const still = kind === 'emondrian' ? '' : 'eve';
      expect([later.status, later.stamp?.security]).toEqual(['bypass dirty-session', still]);
    }
    for (const id of [clean, undefined]) {
      for (const user of ['alice', 'bob']) {
        if (id === undefined || user === 'alice') {
          expect((await ask(id, user)).stamp?.security).toBe('');
        }
      }
    }
  });

  test('what is written back is seen in its session alone until it is committed, and then by all', async () => {
    const [writing, reading] = [await begin('ADMIN'), await begin('bob')];
    const before = (await ask(reading, 'bob')).stamp?.data ?? 0;
    await ask(writing, 'ADMIN', UPDATE);
    const own = await ask(writing, 'ADMIN');
    expect([own.status, own.stamp?.created]).toEqual(['bypass dirty-session', [UPDATE]]);
    for (const id of [reading, undefined]) {
      const other = await ask(id, 'bob');
      expect([other.stamp?.created, other.stamp?.data]).toEqual([[], before]);
    }
    await ask(writing, 'ADMIN', 'COMMIT TRANSACTION');
    for (const id of [reading, undefined]) {
      expect((await ask(id, 'bob')).stamp?.data).toBe(before + 1);
      expect((await ask(id, 'bob')).status).toBe('hit');
    }
  });

  test('an answer that was under way when the data changed is not kept', async () => {
    const [writing, reading, other] = [await begin('ADMIN'), await begin('bob'), await begin()];
    await ask(writing, 'ADMIN', UPDATE);
    const statement = `SELECT FROM [Sales ${count}]`;
    const held = engine().hold((request) => request.statement === statement, 'answer');
    const early = ask(reading, 'bob');
    await held.arrived;
    await ask(writing, 'ADMIN', 'COMMIT TRANSACTION');
    held.release();
    const before = (await early).stamp?.data ?? 0;
    for (const [id, user] of [
      [reading, 'bob'],
      [other, 'alice'],
      [undefined, 'bob'],
    ] as const) {
      expect((await ask(id, user)).stamp?.data).toBe(before + 1);
    }
  });

  test('a command that processes makes everything stale, whoever shares it', async () => {
    const reading = await begin('bob');
    const before = (await ask(reading, 'bob')).stamp?.data ?? 0;
    expect((await ask(reading, 'bob')).status).toBe('hit');
    const command = bodyOf()
      .toString()
      .replace(
        /<Statement>.*<\/Statement>/u,
        '<Process xmlns="http://schemas.microsoft.com/analysisservices/2003/engine"><Type>ProcessFull</Type></Process>',
      );
    await askStamped(url(), Buffer.from(command), { user: 'ADMIN' });
    expect((await ask(reading, 'bob')).stamp?.data).toBe(before + 1);
    expect((await ask(undefined, 'alice')).stamp?.data).toBe(before + 1);
  });
});
