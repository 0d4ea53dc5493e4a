import { beforeEach, describe, expect, test } from '@jest/globals';
import type { SessionRecord } from '../../../src/freshness/freshness-store.ts';
import { createIfError, createStands } from '../../../src/line/replay.ts';
import { execute } from '../../support/envelopes.ts';
import {
  asked,
  changed,
  createMemoHouse,
  GUID,
  type Headers,
  SESSION,
  type Taught,
} from './memo-house.ts';

let house: ReturnType<typeof createMemoHouse>;

beforeEach(() => {
  house = createMemoHouse();
});

/** Nothing is noted under a head that comes for the first time: so all is taught twice. */
async function taughtTwice(taught?: Taught): Promise<void> {
  await house.teach(taught);
  await house.teach(taught);
}

describe('its answer is not looked for under the key of before when', () => {
  const change = (other: Partial<SessionRecord>) => {
    house.state.session = { kind: 'known', record: { ...house.state.record, ...other } };
  };
  test.each<[string, () => void]>([
    ['the login must be checked again', () => (house.state.login.valid = false)],
    ['the session must be asked for', () => (house.state.session = undefined)],
    ['the session is not known', () => (house.state.session = { kind: 'unknown' })],
    [
      'the store of sessions is away',
      () => (house.state.session = { kind: 'unavailable', last: house.state.record }),
    ],
    ['the session is dirty', () => change({ dirty: true })],
    ['the session is another user’s', () => change({ principal: 'bob' })],
    ['the session began with something else', () => change({ profile: 'q' })],
    ['the session is in another catalog', () => change({ catalog: 'Other' })],
    ['it is not seen whether its data changed', () => house.blind.add('project:foodmart')],
    ['the engine must be told that the session lives', () => change({ forwardedAt: 0 })],
  ])('%s', async (_why, happen) => {
    await taughtTwice();
    expect(house.keyOf()).toBe('k');
    happen();
    expect(house.keyOf()).toBeUndefined();
  });

  test('the roles under which it is shared are not those of the user any more', async () => {
    house.state.roles = 'roles:1,2';
    await taughtTwice({ share: 'roles', roles: 'roles:1,2' });
    expect(house.keyOf()).toBe('k');
    for (const other of [undefined, 'roles:1']) {
      house.state.roles = other;
      expect(house.keyOf()).toBeUndefined();
    }
  });

  test.each<[string, Buffer]>([
    ['its session is not known', asked(SESSION.replaceAll('q', 'x'))],
    ['a session is not named', execute({ statement: 'SELECT FROM [Sales]' })],
    ['another statement is asked', changed('Sales', 'Other')],
    ['an id holds what means something to XML', changed(GUID, GUID.replaceAll('0', '&'))],
    ['an id is longer', asked(SESSION, `${GUID}0`)],
    ['an id of a session is longer', asked(`${SESSION}0`)],
  ])('%s', async (_why, body) => {
    await taughtTwice();
    expect(house.keyOf(body)).toBeUndefined();
    expect(house.keyOf()).toBe('k');
  });

  test.each<[string, Headers]>([
    ['a header is there that was not', { 'cache-control': 'no-cache' }],
    ['another user asks', { authorization: 'Basic Ym9iOmJvYg==' }],
    ['the session is named in a header', { 'x-as-sessionid': SESSION }],
  ])('%s', async (_why, headers) => {
    await taughtTwice();
    expect(house.keyOf(asked(), headers)).toBeUndefined();
  });
});

describe('behind a failure of the engine', () => {
  const STALE = 4 * 3_600_000;
  const SESSION_NAME = { endpoint: 'engine', id: SESSION };

  /** Of the users file. */
  let proof: unknown;
  /** How long past its ttl an entry may answer a query, once the engine has failed it. */
  async function allowed(changed: { share?: 'user' | 'roles'; roles?: string } = {}) {
    const { state, parts } = house;
    const { share = 'user', roles } = changed;
    const found: string[] = [];
    const ifError = createIfError({
      ...parts,
      stands: createStands(parts),
      authenticator: { ...parts.authenticator, proofOf: () => proof },
      sessions: { find: async ({ id }) => (found.push(id), { kind: 'unknown' }) },
      roleSets: { nameFor: async () => state.roles },
    });
    const query = { share, roles, scopes: ['project:foodmart'], staleIfError: STALE } as never;
    const known = { name: SESSION_NAME, record: { ...state.record } };
    const check = await ifError(await house.handled(asked()), query, known)();
    expect(found).toEqual([SESSION]);
    return check;
  }
  const change = (other: Partial<SessionRecord>) => {
    house.state.session = { kind: 'known', record: { ...house.state.record, ...other } };
  };

  test('an entry may be as old as is configured, also where the engine should be told that the session lives', async () => {
    change({ forwardedAt: 0 });
    expect((await allowed())()).toBe(STALE);
  });

  test('a login that is not remembered any more counts as long as its user has the same proof', async () => {
    house.parts.authenticator.remembered = () => undefined;
    expect((await allowed())()).toBe(0);
    proof = 'hash';
    const check = await allowed();
    expect(check()).toBe(STALE);
    proof = 'other';
    expect(check()).toBe(0);
  });

  test.each<[string, () => void]>([
    ['the login does not count', () => (house.state.login.valid = false)],
    ['the session is not known', () => (house.state.session = { kind: 'unknown' })],
    ['the session is dirty', () => change({ dirty: true })],
    ['the session is in another catalog', () => change({ catalog: 'Other' })],
    ['it is not seen whether its data changed', () => house.blind.add('project:foodmart')],
  ])('none may answer in the turn in which %s', async (_why, happen) => {
    const check = await allowed();
    expect(check()).toBe(STALE);
    happen();
    expect(check()).toBe(0);
  });

  test('none may answer a user whose roles have changed, or who has some now', async () => {
    house.state.roles = 'roles:1';
    const check = await allowed({ share: 'roles', roles: 'roles:1' });
    expect(check()).toBe(STALE);
    house.state.roles = 'roles:2';
    expect(check()).toBe(0);
    expect((await allowed({ share: 'roles' }))()).toBe(0);
  });

  test('a judge is told that the entry is old', async () => {
    (await allowed())();
    expect(house.judged.at(-1)).toBe(true);
  });
});
