import { describe, expect, test } from '@jest/globals';
import { createPermissions } from '../../../../src/auth/authenticator.ts';
import { principalOf } from '../../../../src/common/principal.ts';

const LISTS = { admins: ['ADMIN', 'José'], viewers: [], purgers: ['LOADER'] };

describe('permissions', () => {
  const permissions = createPermissions(LISTS, 'purgers');

  test.each([
    ['ADMIN', true, true],
    ['LOADER', false, true],
    ['ANALYST', false, false],
    ['admin', false, false],
    ['ADMIN ', false, false],
    ['José'.normalize('NFD'), false, false],
    ['', false, false],
    ['__proto__', false, false],
  ])('%j may administer: %s, may purge: %s', (name, administers, purges) => {
    expect(permissions.mayAdminister(principalOf(name))).toBe(administers);
    expect(permissions.mayPurge(principalOf(name))).toBe(purges);
  });

  test.each([
    ['nobody', []],
    ['purgers', ['ADMIN', 'LOADER']],
    ['everybody', ['ADMIN', 'LOADER', 'ANALYST', 'admin', '']],
  ] as const)('with cache.client_control: %s only %j control the cache', (controlling, names) => {
    const { mayControlCache } = createPermissions(LISTS, controlling);
    const all = ['ADMIN', 'LOADER', 'ANALYST', 'admin', ''];
    expect(all.filter((name) => mayControlCache(principalOf(name)))).toEqual(names);
  });
});
