import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { mddatasetAnswer, rowsetAnswer } from '../support/answers.ts';
import { discover, execute } from '../support/envelopes.ts';
import { askXmla, send, shortStatus, until } from '../support/http-client.ts';
import { gate, sendXml, startStubEngine, type StubEngine } from '../support/stub-engine.ts';
import { startTestGateway, type TestGateway } from '../support/test-gateway.ts';

/** An engine whose directory takes names in any letter case, and whose password is `right`. */
let engine: StubEngine;
let gateway: TestGateway;
let held: ReturnType<typeof gate> | undefined;

const login = (name: string, password = 'right', encoding: 'utf8' | 'latin1' = 'utf8') =>
  `Basic ${Buffer.from(`${name}:${password}`, encoding).toString('base64')}`;

beforeAll(async () => {
  engine = await startStubEngine(async (response, request) => {
    const [name, password] = Buffer.from(request.headers.authorization?.slice(6) ?? '', 'base64')
      .toString('latin1')
      .split(':');
    if (password !== 'right') return sendXml('', { status: 401 })(response, request);
    const isDiscover = request.body.includes('RequestType');
    if (!isDiscover) await held?.opened;
    const members = [name?.replaceAll(/[^a-z]/gi, '') ?? ''];
    const answer = isDiscover ? rowsetAnswer() : mddatasetAnswer({ members });
    return sendXml(answer)(response, request);
  });
});
afterEach(() => gateway.close());
afterAll(() => engine.close());

const start = async (limits: object = {}) => {
  held = undefined;
  gateway = await startTestGateway({
    engine: { url: engine.url, login: 'forward' },
    auth: { provider: 'engine' },
    listen: { open: ['metrics'] },
    limits,
  });
  engine.seen.length = 0;
};
const ask = (authorization: string, body: Buffer) =>
  askXmla(gateway.url, body, { headers: { authorization } });
const query = (cube: string) => execute({ statement: `SELECT FROM [${cube}]` });

/** Fullwidth letters and outer spaces are the same to a directory (RFC 4518). */
const SPELLINGS = ['alice', 'Alice', 'ALICE', 'alice ', '\uff41lice'];

describe('users whose names differ in their spelling alone, where the engine checks logins,', () => {
  test('are let in as different principals, each with entries of its own', async () => {
    await start();
    for (const status of ['miss stored', 'hit']) {
      for (const name of SPELLINGS.slice(0, 3)) {
        const answer = await ask(login(name), query('Sales'));
        expect(shortStatus(answer)).toBe(status);
        expect(answer.text).toContain(`>${name}<`);
      }
    }
  });

  test('have one count of wrong passwords', async () => {
    await start();
    const statuses: number[] = [];
    for (let n = 0; n < 12; n += 1) {
      const header = login(SPELLINGS[n % SPELLINGS.length] ?? '', `guess ${n}`);
      statuses.push((await ask(header, query('Sales'))).status);
    }
    expect(statuses).toEqual([...Array<number>(10).fill(401), 429, 429]);
  });

  test('have one count with the login in ISO-8859-1', async () => {
    await start();
    const statuses: number[] = [];
    for (let n = 0; n < 11; n += 1) {
      const header = login('müller', `guess ${n}`, n % 2 === 0 ? 'utf8' : 'latin1');
      statuses.push((await ask(header, query('Sales'))).status);
    }
    expect(statuses.at(-1)).toBe(429);
  });

  test('have one share of new names', async () => {
    await start({ names_per_user: 2 });
    const named = (name: string, catalog: string) =>
      ask(
        login(name),
        discover({ requestType: 'MDSCHEMA_CUBES', restrictions: { CATALOG_NAME: catalog } }),
      ).then(shortStatus);
    expect(await named('alice', 'A')).toBe('miss stored');
    expect(await named('Alice', 'B')).toBe('miss stored');
    expect(await named('ALICE', 'C')).toBe('bypass many-names');
    expect(await named('bob', 'C')).toBe('miss stored');
  });

  test('have one share of the places at the engine', async () => {
    await start({ per_user: 1 });
    for (const name of ['alice', 'Alice', 'bob']) {
      await send(gateway.url, { path: '/health/ready', headers: { authorization: login(name) } });
    }
    held = gate();
    engine.seen.length = 0;
    const waiting = async () => {
      const { text } = await send(gateway.url, { path: '/metrics' });
      return Number(/^mdx_gateway_engine_queue (\d+)$/m.exec(text)?.[1]);
    };
    const asked = () => engine.seen.map(({ body }) => /\[(\w+)\]/.exec(String(body))?.[1]);
    const first = ask(login('alice'), query('First'));
    await until(() => engine.seen.length === 1);
    const second = ask(login('Alice'), query('Second'));
    while ((await waiting()) === 0) expect(asked()).toEqual(['First']);
    const others = ask(login('bob'), query('Others'));
    await until(() => engine.seen.length === 2);
    expect(asked()).toEqual(['First', 'Others']);
    held.open();
    held = undefined;
    await Promise.all([first, second, others]);
    expect(asked()).toEqual(['First', 'Others', 'Second']);
  });
});
