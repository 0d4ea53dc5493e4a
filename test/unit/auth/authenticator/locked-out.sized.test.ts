import { describe, expect, test } from '@jest/globals';
import { spawnSync } from 'node:child_process';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createEngineAuthenticator } from '../../../../src/auth/engine-login.ts';
import { createFileAuthenticator } from '../../../../src/auth/users-file.ts';
import { LOGIN_MUTANTS } from '../../../support/locked-out/mutants.ts';
import { checkLockedOut } from '../../../support/locked-out/oracle.ts';
import { mutantProgram } from '../../../sim/mutants.ts';
import { sampled, sizes } from '../../../support/sizes.ts';

const MAIN = fileURLToPath(new URL('../../../support/locked-out/main.ts', import.meta.url));
/** So many sequences find each fault. */
const RUNS = 30_000;

describe('no login is good for longer than the design says, and none for less', () => {
  test('whatever its time, the engine, the users file and reloads do', async () => {
    await checkLockedOut(
      { createEngineAuthenticator, createFileAuthenticator },
      sizes.lockedOutRuns,
    );
  });

  test.each(sampled(Object.entries(LOGIN_MUTANTS)))(
    'this would be found: %s',
    (_name, { replacements }) => {
      const { main, remove } = mutantProgram(replacements);
      const { status, stdout, stderr } = spawnSync(
        process.execPath,
        [MAIN, dirname(main), String(RUNS)],
        { encoding: 'utf8' },
      );
      remove();
      expect([status, stderr]).toEqual([1, '']);
      expect(stdout).toMatch(/^Error: (?:a hit|all but a hit|answered)/);
    },
  );
});
