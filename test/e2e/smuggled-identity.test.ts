import { beforeEach, describe, expect, test } from '@jest/globals';
import {
  IDENTITIES,
  LOGINS,
  newCube,
  question,
  SECURITY,
  startAttackedHouse,
  withHeader,
  type Login,
} from '../support/attacked-house.ts';
import { execute } from '../support/envelopes.ts';
import { askXmla, shortStatus, type XmlaMessage } from '../support/http-client.ts';
import type { SeenRequest } from '../support/stub-engine.ts';
import { basic } from '../support/test-gateway.ts';
import { shared } from '../support/opened.ts';

/**
 * Whatever could tell an engine of another identity than the login is stripped on every way to the engine, or
 * refused. Each attack has a case of its own; what is in the key instead stands in own-entries.test.ts, what goes
 * past the cache in past-the-cache.test.ts.
 */

const house = shared(() => startAttackedHouse());
beforeEach(() => {
  house.engine.seen.length = 0;
});

const change = (cube: string) => execute({ statement: `DRILLTHROUGH SELECT FROM [${cube}]` });

/** All of a request but the Host that names the engine. */
const whole = ({ method, url, rawHeaders, body }: SeenRequest) => ({
  method,
  url,
  headers: inOneOrder(rawHeaders),
  body: body.toString(),
});

/** An engine sees no difference: names have no letter case, and their order says nothing (RFC 9110 section 5.3). */
function inOneOrder(raw: readonly string[]): string[] {
  const pairs = raw.flatMap((name, at) =>
    at % 2 === 0 ? [[name.toLowerCase(), raw[at + 1] ?? '']] : [],
  );
  return pairs.toSorted(([a = ''], [b = '']) => (a < b ? -1 : a > b ? 1 : 0)).flat();
}

const AUTHORIZATION: Readonly<Record<Login, string | undefined>> = {
  forward: basic('alice'),
  service: `Basic ${Buffer.from('service:secret').toString('base64')}`,
  none: undefined,
};

/** Sends an attack beside the same request without it, on both ways to the engine. */
async function besides(url: string, attack: XmlaMessage) {
  const cube = newCube();
  const agent = { 'user-agent': 'MSOLAP 16' };
  const calm: XmlaMessage = { headers: agent, ...(attack.path && { path: '/mdx/xmla?' }) };
  const armed: XmlaMessage = { ...attack, headers: { ...agent, ...attack.headers } };
  return {
    cube,
    attacked: await askXmla(url, question(cube), armed),
    plain: await askXmla(url, question(cube), calm),
    passed: await askXmla(url, change(cube), armed),
    calmQuery: await askXmla(url, question(`${cube}x`), calm),
    calmPassed: await askXmla(url, change(cube), calm),
  };
}

const STRIPPED: readonly (readonly [attack: string, name: string, message: XmlaMessage])[] = [
  ['a cookie of another user', 'cookie', { headers: { cookie: 'MDXAUTH=bob' } }],
  ['a cookie of another session', 'cookie', { headers: { Cookie: 'JSESSIONID=bob; a=b' } }],
  ['the login of another gateway', 'gatewayauth', { headers: { GatewayAuth: 'bob' } }],
  ['a user told by a proxy', 'x-forwarded-user', { headers: { 'X-Forwarded-User': 'bob' } }],
  ['groups told by a proxy', 'x-forwarded-groups', { headers: { 'X-Forwarded-Groups': 'bobs' } }],
  ['a user told with underscores', 'x_forwarded_user', { headers: { X_Forwarded_User: 'bob' } }],
  ['binary answers', 'x-transport-caps-negotiation-flags', { headers: CAPS() }],
  ['the login of a proxy', 'proxy-authorization', { headers: { 'Proxy-Authorization': 'bob' } }],
];

function CAPS(): Record<string, string> {
  return { 'X-Transport-Caps-Negotiation-Flags': '0,1,0,1,1' };
}

const PARAMETERS: readonly (readonly [attack: string, search: string])[] = [
  ['a user name', 'username=bob'],
  ['a user name in capitals', 'USERNAME=bob'],
  ['a user name, percent-encoded', '%75ser%4Eame=bob'],
  ['a user name in letters that fold to others', 'u%C5%BFername=bob'],
  ['a password', 'password=bob'],
  ['a password, percent-encoded', 'P%61ssword=bob'],
  ['a user id', 'userid=bob'],
  ['a user id in mixed letters', 'UserID=bob'],
  ['a user id twice', 'userid=bob&userId=bob'],
];

describe.each(LOGINS)('with the login %s', (login) => {
  test.each(STRIPPED)(
    '%s never reaches the engine and makes no key',
    async (_attack, name, message) => {
      const told = await besides(house.urlOf(login), message);
      expect(shortStatus(told.attacked)).toBe('miss stored');
      expect(shortStatus(told.plain)).toBe('hit');
      expect(shortStatus(told.passed)).toBe('bypass drillthrough');
      const [query, passed, calmQuery, calmPassed] = house.engine.seen.map(whole);
      expect({ ...query, body: '' }).toEqual({
        ...calmQuery,
        headers: calmQuery?.headers.map((value) =>
          value === `${question(`${told.cube}x`).length}` ? `${question(told.cube).length}` : value,
        ),
        body: '',
      });
      expect(passed).toEqual(calmPassed);
      for (const { headers } of house.engine.seen)
        expect(headers[name.toLowerCase()]).toBeUndefined();
    },
  );

  test.each(PARAMETERS)(
    '%s in the query never reaches the engine and makes no key',
    async (_attack, search) => {
      const told = await besides(house.urlOf(login), { path: `/mdx/xmla?${search}` });
      expect(shortStatus(told.attacked)).toBe('miss stored');
      expect(shortStatus(told.plain)).toBe('hit');
      expect(house.engine.seen.map(({ url }) => url)).toEqual(Array(4).fill('/xmla'));
    },
  );

  test('the engine is asked in one name only, whatever the spelling of the login', async () => {
    const url = house.urlOf(login);
    const [, token = ''] = basic('alice').split(' ');
    for (const authorization of [`basic ${token}`, `BASIC ${token}`, `Basic  ${token}`]) {
      const cube = newCube();
      for (const body of [question(cube), change(cube)]) {
        const { status } = await askXmla(url, body, { headers: { authorization } });
        expect([200, 401]).toContain(status);
        if (status === 401) expect(house.engine.seen).toEqual([]);
      }
      for (const { headers } of house.engine.seen) {
        if (login === 'forward') expect(nameOf(headers.authorization)).toBe('alice');
        else expect(headers.authorization).toBe(AUTHORIZATION[login]);
      }
      house.engine.seen.length = 0;
    }
  });

  test('a second login beside the first reaches the engine by no way', async () => {
    const url = house.urlOf(login);
    for (const bodyOf of [question, change]) {
      house.engine.seen.length = 0;
      const both = [basic('alice'), basic('bob')];
      const cube = newCube();
      const answer = await askXmla(url, bodyOf(cube), { headers: { authorization: both } });
      expect([200, 401]).toContain(answer.status);
      for (const { rawHeaders, headers } of house.engine.seen) {
        const logins = rawHeaders.filter((one) => one.toLowerCase() === 'authorization');
        expect(logins).toHaveLength(login === 'none' ? 0 : 1);
        expect(headers.authorization).toBe(AUTHORIZATION[login]);
      }
      if (answer.status !== 200) continue;
      const ofBob = await askXmla(url, bodyOf(cube), { user: 'bob' });
      expect(shortStatus(ofBob)).not.toBe('hit');
    }
  });

  test.each([
    ['a header', { headers: { EXECUTE_AS_USER_ID: 'bob' } }],
    ['a header with hyphens', { headers: { 'Execute-As-User-Id': 'bob' } }],
    ['a parameter', { path: '/mdx/xmla?EXECUTE_AS_USER_ID=bob' }],
    ['a parameter in small letters', { path: '/mdx/xmla?a=1&execute_as_user_id' }],
    ['an encoded parameter', { path: '/mdx/xmla/p?%45xecute%5Fas%5Fuser_id=bob' }],
  ])('the rights of another by EXECUTE_AS_USER_ID as %s are refused', async (_how, message) => {
    const url = house.urlOf(login);
    const cube = newCube();
    for (const body of [question(cube), change(cube)]) {
      const refused = await askXmla(url, body, message);
      expect([refused.status, shortStatus(refused)]).toEqual([403, 'gateway identity-refused']);
      expect(refused.text).toContain('Fault>');
    }
    expect(house.engine.seen).toEqual([]);
    expect(shortStatus(await askXmla(url, question(cube)))).toBe('miss stored');
  });
});

function nameOf(authorization: string | undefined): string {
  const token = (authorization ?? '').trim().split(/\s+/)[1] ?? '';
  return Buffer.from(token, 'base64').toString().split(':')[0] ?? '';
}

test('a login in odd letters opens no entry of another user', async () => {
  const url = house.urlOf();
  const cube = newCube();
  await askXmla(url, question(cube), { user: 'bob' });
  const [, token = ''] = basic('alice').split(' ');
  for (const authorization of [`basic ${token}`, `BASIC ${token}`, `Basic  ${token}`]) {
    const answer = await askXmla(url, question(cube), { headers: { authorization } });
    expect([401, 200]).toContain(answer.status);
  }
  expect(
    house.engine.seen.filter(({ headers }) => nameOf(headers.authorization) === 'bob'),
  ).toHaveLength(1);
});

describe('engine.delegation', () => {
  const asking: readonly (readonly [what: string, body: (cube: string) => Buffer])[] = [
    ...IDENTITIES.map(
      (name) =>
        [
          `the property ${name}`,
          (cube: string) => question(cube, { properties: { [name]: 'bob' } }),
        ] as const,
    ),
    ['WS-Security', (cube) => withHeader(question(cube), SECURITY)],
    [
      'a property in a command that passes',
      (cube) => execute({ statement: `ALTER CUBE [${cube}]`, properties: { Roles: 'bobs' } }),
    ],
  ];

  test.each(LOGINS.flatMap((login) => asking.map(([what, body]) => [what, login, body] as const)))(
    'refuse keeps %s from the engine, with the login %s',
    async (_what, login, body) => {
      const url = house.urlOf(login, 'refuse');
      const cube = newCube();
      const refused = await askXmla(url, body(cube));
      expect([refused.status, shortStatus(refused)]).toEqual([403, 'gateway identity-refused']);
      expect(refused.text).toContain('Fault>');
      expect(house.engine.seen).toEqual([]);
      expect(shortStatus(await askXmla(url, question(cube)))).toBe('miss stored');
    },
  );

  test.each([
    ['service', 403],
    ['forward', 200],
    ['none', 200],
  ] as const)(
    'by default lets nobody borrow the rights of the login %s: %i',
    async (login, status) => {
      const url = house.urlOf(login, 'default');
      const asked = await askXmla(url, question(newCube(), { properties: { Roles: 'bobs' } }));
      expect(asked.status).toBe(status);
      expect(house.engine.seen).toHaveLength(status === 200 ? 1 : 0);
    },
  );

  test('refuse lets properties pass that are empty, as some clients send them', async () => {
    const url = house.urlOf('service', 'refuse');
    const asked = await askXmla(
      url,
      question(newCube(), { properties: { EffectiveUserName: '' } }),
    );
    expect([asked.status, shortStatus(asked)]).toEqual([200, 'bypass identity-property']);
  });
});
