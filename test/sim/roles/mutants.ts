import type { Replacement } from '../mutants.ts';

/** The faults that the simulation of roles has to find. */
export const ROLE_MUTANTS: Readonly<Record<string, readonly Replacement[]>> = {
  'a change of a role does not wait for the lease of others': [
    {
      file: 'api/roles.ts',
      find: `    if (lease > 0) await sleep(lease * LEASE_MARGIN);\n`,
      put: ``,
    },
  ],
  'a change that an earlier attempt has made is answered at once': [
    {
      file: 'api/roles.ts',
      find: `if (!refused || soAlready.includes(result)) await outlive();`,
      put: `if (!refused) await outlive();`,
    },
  ],
  'a lease of roles is waited out with no more than its length': [
    { file: 'common/leases.ts', find: `LEASE_MARGIN = 1.1;`, put: `LEASE_MARGIN = 1;` },
  ],
  'roles of a user are remembered under every token': [
    { file: 'roles/role-sets.ts', find: `known && known.token === token &&`, put: `known &&` },
  ],
  'the token of the roles is used after its lease': [
    {
      file: 'common/leases.ts',
      find: `return now - start.now < length && wall >= start.wall && wall - start.wall < length;`,
      put: `return now - start.now < 9 * length && wall >= start.wall;`,
    },
  ],
};
