import { describe, expect, test } from '@jest/globals';
import { sessionName } from '../../../../src/sessions/digests.ts';
import { BEGUN, find, known, LEASE, replica } from '../replica.ts';

/** One session of an engine has several names: by its id, and by the ways that lead to the engine. */

const NAME = { endpoint: 'engine', id: '{5E55-A}' };
const OTHERWISE = [
  ['its id in another letter case', { endpoint: 'engine', id: '{5e55-a}' }],
  ['its id without braces', { endpoint: 'engine', id: '5E55-A' }],
  ['another place', { endpoint: 'another', id: '{5E55-A}' }],
] as const;

describe.each(OTHERWISE)('a session under %s', (_how, name) => {
  test('is never known, so that it is never taken for clean', async () => {
    const { sessions, clock } = replica();
    await sessions.begin(NAME, BEGUN);
    expect([await find(sessions, NAME), await find(sessions, name)]).toEqual(['clean', 'unknown']);
    clock.advance(LEASE);
    expect([await find(sessions, name), await find(sessions, NAME)]).toEqual(['unknown', 'clean']);
    expect(await sessions.find(name)).toMatchObject({ otherwise: BEGUN });
  });

  test('is made dirty under all of its names', async () => {
    const { sessions, shared } = replica();
    await sessions.begin(NAME, BEGUN);
    expect(await sessions.dirty([name])).toBe(true);
    expect(await find(sessions, NAME)).toBe('dirty');
    expect((await shared.read(sessionName(NAME))).record?.dirty).toBe(true);
  });

  test('does not end the one that it may be: that is dirty then', async () => {
    for (const rests of [0, LEASE]) {
      const { sessions, clock } = replica();
      await sessions.begin(NAME, BEGUN);
      clock.advance(rests);
      await sessions.end(name);
      expect(await find(sessions, NAME)).toBe('dirty');
    }
  });

  test('that is begun takes the place of the older one, which is unknown then', async () => {
    const { sessions } = replica();
    await sessions.begin(NAME, BEGUN);
    const record = await known(sessions, NAME);
    await sessions.begin(name, { ...BEGUN, principal: 'bob' });
    expect([await find(sessions, NAME), await find(sessions, name)]).toEqual(['unknown', 'clean']);
    expect(await sessions.confirm(NAME, record)).toBe(false);
  });

  test('is nothing that this gateway knew while the store is away', async () => {
    const { sessions, store, clock } = replica();
    await sessions.begin(NAME, BEGUN);
    clock.advance(LEASE);
    store.away = true;
    expect(await sessions.find(name)).toEqual({ kind: 'unavailable', last: undefined });
    expect(await sessions.find(NAME)).toMatchObject({ kind: 'unavailable', last: BEGUN });
  });
});

test('what was known last is told while the store is away, however old it is', async () => {
  const { sessions, store, clock } = replica();
  await sessions.begin(NAME, BEGUN);
  const record = await known(sessions, NAME);
  await sessions.takeCatalog(NAME, record, { catalog: 'Sales', profile: 'later' });
  store.away = true;
  clock.advance(1_000 * LEASE);
  expect(await sessions.find(NAME)).toMatchObject({
    kind: 'unavailable',
    last: { ...BEGUN, catalog: 'Sales', profile: 'later' },
  });
});
