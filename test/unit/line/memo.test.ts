import { beforeEach, describe, expect, test } from '@jest/globals';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { principalOf } from '../../../src/common/principal.ts';
import { circumstancesOf } from '../../../src/line/circumstances.ts';
import { besideName } from '../../../src/line/readings.ts';
import { inSession, understand } from '../../../src/line/understand.ts';
import { execute } from '../../support/envelopes.ts';
import {
  asked,
  createMemoHouse,
  DESTINATION,
  GUID,
  loggedIn,
  requestOf,
  SESSION,
  type Taught,
} from './memo-house.ts';

const DRILLTHROUGH = execute({ statement: 'DRILLTHROUGH SELECT FROM [Sales]' });

test('what is kept of a request counts with the query of its path and the headers that the engine answers by', async () => {
  const read = (more: object, headers = {}) =>
    understand(circumstancesOf(headers, { ...DESTINATION, ...more } as never), asked()).then(
      besideName,
    );
  const long = 'x'.repeat(10_000);
  const named = { settings: { ...(DESTINATION.settings as object), headers: ['x-tenant'] } };
  const none = await read({});
  const addressee = { project: undefined, query: [long] };
  expect((await read({ addressee })) - none).toBeGreaterThan(3 * long.length);
  expect((await read(named, { 'x-tenant': long })) - none).toBeGreaterThan(3 * long.length);
});

test.each([
  ['the value of an ignored property', (text: string) => ({ properties: { Timeout: text } })],
  ['a statement that is too long to be read', (text: string) => ({ statement: text })],
])('what is kept of a request counts with %s', async (_, more) => {
  const body = (text: string) => execute({ statement: 'SELECT FROM [Sales]', ...more(text) });
  const read = (text: string) =>
    understand(circumstancesOf({}, DESTINATION as never), body(text)).then(besideName);
  const length = 1_200_000;
  expect((await read('x'.repeat(length))) - (await read(''))).toBeGreaterThan(3 * length);
});

test.each([
  [
    'attribute of a header',
    (name: string) => ` ${name}="1"`,
    [
      '<Body>',
      '<Header><Version xmlns="http://schemas.microsoft.com/analysisservices/2003/engine/2"',
      '/></Header>',
    ],
  ],
  ['unknown function', (name: string) => `${name}(1),`, ['FROM', '', '']],
  ['command', (name: string) => `<${name}/>`, ['</Command>', '', '']],
] as const)(
  'each %s counts with what it takes beside its text',
  async (_, piece, [at, begin, end]) => {
    const read = (count: number) => {
      const pieces = Array.from({ length: count }, (_, i) => piece(`a${i}`)).join('');
      const body = execute({ statement: 'SELECT FROM [Sales]', prefix: '' }).toString();
      const whole = Buffer.from(body.replace(at, `${begin}${pieces}${end}${at}`));
      return understand(circumstancesOf({}, DESTINATION as never), whole).then(besideName);
    };
    expect((await read(400)) - (await read(0))).toBeGreaterThan(400 * 60);
  },
);

let house: ReturnType<typeof createMemoHouse>;

beforeEach(() => {
  house = createMemoHouse();
});

/** Nothing is noted under a head that comes for the first time: so all is taught twice. */
async function taughtTwice(taught?: Taught): Promise<void> {
  await house.teach(taught);
  expect(house.keyOf(taught?.body, taught?.headers)).toBeUndefined();
  await house.teach(taught);
}

test('a query that comes again is known, in its own session and with whatever ids it makes up', async () => {
  await taughtTwice();
  expect(house.keyOf()).toBe('k');
  expect(house.keyOf(asked(SESSION, GUID.replaceAll('0', 'f')))).toBe('k');
  const head = house.memo.headOf(requestOf());
  const other = SESSION.replaceAll('q', 'x');
  const recognised = head && house.memo.recognise(head, asked(other));
  expect(recognised && inSession(recognised.asked, recognised.sessionId).session).toMatchObject({
    id: other,
  });
});

test('what was learnt under one head is not known under another', async () => {
  const sales = execute({ statement: 'SELECT FROM [Sales]' });
  const other = execute({ statement: 'SELECT FROM [Other]' });
  const headers = { 'user-agent': 'another' };
  await taughtTwice({ body: sales, key: 'sales' });
  await taughtTwice({ body: other, key: 'other', headers });
  expect([house.keyOf(sales), house.keyOf(other, headers)]).toEqual(['sales', 'other']);
  expect([house.keyOf(sales, headers), house.keyOf(other)]).toEqual([undefined, undefined]);
});

test('the memory that reading a long body takes is counted until it is read', async () => {
  const sized = (length: number) =>
    Buffer.concat([asked(), Buffer.alloc(length - asked().length, ' ')]);
  await house.handled(sized(65_536));
  expect(house.state.taken).toEqual([]);
  await house.handled(sized(65_537));
  expect(house.state.taken).toEqual([16 * 65_537, -65_537]);
  const tooDeep = Buffer.from('<a SessionId="b">'.repeat(200_000));
  await expect(house.handled(tooDeep)).rejects.toThrow('deeper');
  expect(house.state.taken.slice(2)).toEqual([16 * 1_048_576, -tooDeep.length]);
});

describe('nothing is remembered', () => {
  test.each<[string, Taught]>([
    ['of a user without roles where answers are shared by roles', { share: 'roles' }],
    ['of a body that is compressed', { headers: { 'content-encoding': 'gzip' } }],
    ['of a request that names its session in a header', { headers: { 'x-as-sessionid': SESSION } }],
    ['of a login that is not remembered', { headers: { authorization: 'Basic Ym9iOmJvYg==' } }],
    ['of a login that is another’s by now', { change: { principal: principalOf('bob') } }],
  ])('%s', async (_what, taught) => {
    await taughtTwice(taught);
    expect(house.keyOf(taught.body, taught.headers)).toBeUndefined();
  });

  test('by the bytes of a body of more than 64 KiB, which is never made a text', async () => {
    const sized = (length: number) =>
      Buffer.concat([asked(), Buffer.alloc(length - asked().length, ' ')]);
    await taughtTwice({ body: sized(65_536) });
    expect(house.keyOf(sized(65_536))).toBe('k');
    const body = sized(65_537);
    await taughtTwice({ body });
    Object.assign(body, { toString: () => expect('a text').toBe('made of it') });
    expect(house.keyOf(body)).toBeUndefined();
  });

  test('of a body with more than 32 properties whose values do not count', async () => {
    const body = (count: number) =>
      Buffer.from(
        asked()
          .toString()
          .replace('</PropertyList>', `${ID.repeat(count)}$&`),
      );
    const ID = '<Timeout>1</Timeout>';
    await taughtTwice({ body: body(31) });
    expect(house.keyOf(body(31))).toBe('k');
    await taughtTwice({ body: body(32) });
    expect(house.keyOf(body(32))).toBeUndefined();
  });

  test('of a request of more than 500 pieces', async () => {
    const body = (count: number) =>
      Buffer.from(
        asked()
          .toString()
          .replace('</PropertyList>', `${'<A>a</A>'.repeat(count)}$&`),
      );
    const [most, more] = [body(497), body(498)];
    await taughtTwice({ body: most });
    expect(house.keyOf(most)).toBe('k');
    await taughtTwice({ body: more });
    expect(house.keyOf(more)).toBeUndefined();
  });

  test('of the query of a path', async () => {
    const search = 'x='.padEnd(5_000, 'x');
    const taught = { change: { address: { project: 'p', search } } };
    await house.teach(taught);
    await house.teach(taught);
    const head = house.memo.headOf(requestOf());
    expect(head?.project).toBe('p');
    expect(JSON.stringify(head)).not.toContain('x=');
  });
});

test('each reading of a body waits for a turn of its user, in which so much may be read', async () => {
  const given: unknown[] = [];
  let door = Promise.withResolvers<void>();
  house.state.ownTurn = (...what) => {
    given.push(what);
    return door.promise;
  };
  for (let reading = 1; reading <= 2; reading += 1) {
    const taught = house.teach();
    await nextTurn();
    expect(given).toEqual(Array.from({ length: reading }, () => [asked().length, 'alice']));
    expect(house.keyOf()).toBeUndefined();
    door.resolve();
    await taught;
    door = Promise.withResolvers<void>();
  }
  expect(house.keyOf()).toBe('k');
});

describe('what is remembered', () => {
  test('counts again when the login was checked again', async () => {
    await taughtTwice();
    house.state.login.valid = false;
    expect(house.keyOf()).toBeUndefined();
    house.state.login = loggedIn('alice');
    await house.teach();
    expect(house.keyOf()).toBe('k');
  });

  test('counts for no other user who logs in with the same credentials later', async () => {
    await taughtTwice();
    const other = execute({ statement: 'SELECT FROM [Other]' });
    house.state.login = loggedIn('bob');
    const bobs = { body: other, change: { principal: principalOf('bob') } };
    await taughtTwice(bobs);
    expect([house.keyOf(other), house.keyOf()]).toEqual(['k', undefined]);
  });

  test('is found under another key when it was answered under another one since', async () => {
    await taughtTwice({ key: 'before' });
    await house.teach();
    expect(house.keyOf()).toBe('k');
  });

  test('of a request that goes past the cache is what was understood, once it came twice', async () => {
    const known = () => {
      const head = house.memo.headOf(requestOf());
      return head && house.memo.recognise(head, DRILLTHROUGH);
    };
    house.memo.remember(await house.handled(DRILLTHROUGH));
    expect(known()).toBeUndefined();
    house.memo.remember(await house.handled(DRILLTHROUGH));
    expect(known()).toMatchObject({ asked: { bypass: 'drillthrough' }, answer: undefined });
    expect(house.keyOf(DRILLTHROUGH)).toBeUndefined();
  });
});
