import { afterEach, describe, expect, test } from '@jest/globals';
import { fuzzSeed } from '../../support/mutate.ts';
import { search, told } from '../../sim/simulation.ts';
import { requestsOver } from '../../sim/sessions/requests.ts';
import { realRedis } from '../../sim/sessions/stores.ts';
import { sizes } from '../../support/sizes.ts';

const goals = sizes.simulated;
/** Nobody waits for it unless something hangs (ms). */
const DEADLINE = 900_000;

let end: (() => Promise<void> | void) | undefined;
afterEach(async () => {
  await end?.();
  end = undefined;
});

describe('gateways that lose and find Redis at different moments answer as the engine would, and turn away nobody who asks in a session that began there', () => {
  test(
    'over a real Redis',
    async () => {
      const { open, close } = await realRedis();
      end = close;
      const simulation = requestsOver(open);
      const runs = await search({ simulation, seed: fuzzSeed() % 1e6, steps: goals.redis });
      console.log(`session oracle: ${JSON.stringify(runs)}`);
      expect(await told(simulation, runs)).toBe('');
      expect(runs.counts['hit']).toBeGreaterThan(goals.redis / 50);
    },
    DEADLINE,
  );
});
