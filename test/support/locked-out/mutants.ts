import type { Mutant } from '../oracle/mutants.ts';

/** The faults that the oracle for people who were locked out has to find. */
export const LOGIN_MUTANTS: Readonly<Record<string, Mutant>> = {
  'a login that is only believed is good for all': {
    replacements: [
      {
        file: 'auth/authenticator.ts',
        find: 'if (remembered?.counts()) return',
        put: 'if (remembered?.countsForHits()) return',
      },
    ],
  },
  'a login is believed from its last use': {
    replacements: [
      {
        file: 'auth/verified-credentials.ts',
        find: 'const isBelieved = ({ checkedAt }: Verified)',
        put: 'const isBelieved = ({ usedAt: checkedAt }: Verified)',
      },
    ],
  },
  'a wrong check behind a hit does not forget the login': {
    replacements: [
      {
        file: 'auth/authenticator.ts',
        find: "if (outcome === 'wrong') verified.forget(digest);",
        put: '',
      },
    ],
  },
  'the time of a check runs from its answer': {
    replacements: [
      {
        file: 'auth/authenticator.ts',
        find: 'verified.remember(digest, principal, proof, at);',
        put: 'verified.remember(digest, principal, proof, clock.now());',
      },
    ],
  },
  'an engine that does not answer prolongs a login': {
    replacements: [
      {
        file: 'auth/authenticator.ts',
        find: "if (outcome === 'right') verified",
        put: "if (outcome !== 'wrong' && (outcome === 'right' || verified.wasRight(digest))) verified",
      },
    ],
  },
  'a login counts though its line of the users file has changed': {
    replacements: [
      {
        file: 'auth/verified-credentials.ts',
        find: 'users.accounts.get(entry.principal.name) === entry.proof ? entry : undefined',
        put: 'users.accounts.has(entry.principal.name) ? entry : undefined',
      },
      {
        file: 'auth/verified-credentials.ts',
        find: "readonly accounts: Pick<ReadonlyMap<string, unknown>, 'get'>",
        put: "readonly accounts: Pick<ReadonlyMap<string, unknown>, 'get' | 'has'>",
      },
    ],
  },
};
