import { describe, expect, test } from '@jest/globals';
import { spawnSync } from 'node:child_process';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { loadConfig } from '../../src/config/load-config.ts';
import { createGateway } from '../../src/gateway.ts';
import { mutantProgram } from '../sim/mutants.ts';
import { fuzzSeed } from '../support/mutate.ts';
import { sampled, sizes } from '../support/sizes.ts';
import { TOLD_MUTANTS } from '../support/told-properties/mutants.ts';
import { checkToldProperties } from '../support/told-properties/oracle.ts';

const MAIN = fileURLToPath(new URL('../support/told-properties/main.ts', import.meta.url));
/** So many answers of the houses that show it best find each fault. */
const ANSWERS = 10_000;

describe('no answer to DISCOVER_PROPERTIES differs from what the engine would say to the very request', () => {
  test('whatever it answers by, and however it reads what is asked', async () => {
    const seed = fuzzSeed();
    const counts = await checkToldProperties(
      { createGateway, loadConfig },
      sizes.toldProperties,
      seed,
    );
    process.stdout.write(`told properties: ${JSON.stringify({ seed, ...counts })}\n`);
    const { compared, ...hits } = counts;
    expect(compared).toBeGreaterThanOrEqual(sizes.toldProperties);
    // Nothing is shown by an engine that is asked each time. A few houses may lack a kind of hits.
    expect(hits.hits).toBeGreaterThan(compared / 20);
    for (const [kind, found] of Object.entries(hits)) {
      if (compared >= 100_000) expect([kind, found > compared / 500]).toEqual([kind, true]);
    }
  }, 3_600_000);

  test.each(sampled(Object.entries(TOLD_MUTANTS)))(
    'this would be found: %s',
    (_name, { replacements, world }) => {
      const { main, remove } = mutantProgram(replacements);
      const given = [String(ANSWERS), '1', JSON.stringify(world)];
      const { status, stdout, stderr } = spawnSync(
        process.execPath,
        ['--disable-warning=ExperimentalWarning', MAIN, dirname(main), ...given],
        { encoding: 'utf8' },
      );
      remove();
      expect([status, stderr]).toEqual([1, '']);
      expect(stdout).toMatch(/^Error: a wrong answer in /);
    },
    600_000,
  );
});
