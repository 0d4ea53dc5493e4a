import { oneAfterTheOther } from '../common/in-turn.ts';
import type { Config } from '../config/config.ts';
import { whatWaits } from '../config/describe-config.ts';
import { endOfCertificate } from './config-warnings.ts';
import type { InForce } from './in-force.ts';
import type { Runtime } from './runtime.ts';

/**
 * Brings configurations into force, and closes the runtimes that they replace.
 * @param steps.renew may refuse a configuration. @throws then, and nothing has changed
 */
export function createReloads(
  inForce: InForce,
  steps: {
    readonly build: (config: Config, before?: Runtime) => Promise<Runtime>;
    readonly renew: (config: Config) => void;
    readonly configure: (config: Config, waiting: readonly string[]) => void;
  },
) {
  /** Runtime in force, and replaced ones that are not closed yet. */
  const runtimes = new Set<Runtime>();
  /** One reload at a time: each builds on what the one before left. */
  const inTurn = oneAfterTheOther();
  let isServing = true;

  function put(config: Config, waiting: readonly string[], runtime: Runtime): void {
    const certificateEnd = endOfCertificate(config.listen);
    Object.assign(inForce, { config, waiting, certificateEnd, runtime });
    runtimes.add(runtime);
    steps.configure(config, waiting);
  }

  async function changeTo(next: Config): Promise<void> {
    const { config, waiting } = whatWaits(inForce.config, next);
    const old = inForce.runtime;
    const renewed = await steps.build(config, old);
    try {
      steps.renew(config);
    } catch (error) {
      await renewed.close();
      throw error;
    }
    put(config, waiting, renewed);
    // Closed when the last request that uses it is over.
    void old
      .idle()
      .then(old.close)
      .finally(() => runtimes.delete(old));
  }

  return {
    isServing: () => isServing,
    begin: async (config: Config) => put(config, [], await steps.build(config)),
    reload(config: Config): Promise<void> {
      if (!isServing) return Promise.reject(new Error('the gateway is shutting down'));
      return inTurn(() => changeTo(config));
    },
    stop(): Promise<void> {
      isServing = false;
      return inTurn(() => {});
    },
    async close(expired: Promise<void>): Promise<void> {
      const all = [...runtimes];
      await Promise.race([Promise.all(all.map((one) => one.idle())), expired]);
      await Promise.all(all.map((one) => one.close()));
    },
  };
}
