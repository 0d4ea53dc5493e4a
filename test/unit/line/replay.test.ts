import { beforeEach, describe, expect, test } from '@jest/globals';
import type { SessionRecord } from '../../../src/freshness/freshness-store.ts';
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
