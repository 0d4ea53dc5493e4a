import { describe, expect, test } from '@jest/globals';
import { createPermissions } from '../../../src/auth/permissions.ts';

describe('permissions', () => {
  const permissions = createPermissions({ admins: ['ADMIN', 'José'], purgers: ['LOADER'] });

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
    expect(permissions.mayAdminister({ name })).toBe(administers);
    expect(permissions.mayPurge({ name })).toBe(purges);
  });
});
