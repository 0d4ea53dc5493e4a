import { expect, test } from '@jest/globals';
import { stringify } from 'yaml';
import { schema } from '../../../../../src/config/config.ts';
import { describeConfig } from '../../../../../src/config/describe-config.ts';
import type { Setting } from '../../../../../src/settings/setting.ts';
import { createPermissions } from '../../../../../src/auth/authenticator.ts';
import { createConsole } from '../../../../../src/features/console/shown.ts';
import { EVENTS } from '../../../../../src/features/events.ts';
import { createMetrics } from '../../../../../src/observability/metrics.ts';
import { gauges } from '../../../../support/gauges.ts';
import { anyName } from '../../../cache/fakes.ts';
import { load } from '../../../config/fake-files.ts';
import { handClock, seeded, statisticsOf } from '../../statistics/answered.ts';
import { ABOUT } from '../../../../support/gauges.ts';

const own = (url: string) => ({
  url,
  login: 'service',
  service: { name: 'gateway', password: 'QQZZ service' },
});
/** Together they hold a secret at every key that can have one. */
const CONFIGURATIONS = [
  {
    engine: own('http://olap/xmla'),
    projects: {
      Shop: {
        engine: own('http://shop/xmla'),
        watch: {
          kind: 'url',
          url: 'https://etl.example/loaded?token=QQZZ',
          user: 'watcher',
          password: 'QQZZ watch',
        },
      },
    },
    cache: {
      key_secret: `QQZZ key ${'x'.repeat(32)}`,
      redis: {
        mode: 'sentinel',
        master: 'mdx',
        url: ['redis://watch:QQZZ%40one@a', 'redis://watch:QQZZ%40one@b'],
        username: 'gateway',
        password: 'QQZZ redis',
        encryption_key: `QQZZ encryption ${'x'.repeat(32)}`,
      },
    },
    storage: { driver: 'postgres', url: 'postgres://gateway:QQZZstorage@db:5432/gateway' },
  },
  {
    storage: { driver: 'http', ...own('https://roles.example/base') },
    hooks: { Shop: { format: 'dbt', secret: `QQZZ ${'x'.repeat(16)}`, projects: ['Shop'] } },
    projects: {
      Shop: {
        watch: { kind: 'postgres', url: 'postgres://w:QQZZwatch@db/dwh', query: 'SELECT 1' },
      },
    },
  },
];

/** The paths of all keys whose values, or parts of them, are masked. */
function secretKeys({ keys, type, write }: Setting<unknown>, path = ''): readonly string[] {
  if (keys !== undefined) {
    return Object.entries(keys).flatMap(([name, one]) => secretKeys(one, `${path}.${name}`));
  }
  const url = 'a://b:QQZZ@c';
  const isMasked = /URL/.test(type) && write(type === 'URL' ? url : [url]) === 'a://b:(a secret)@c';
  return type === 'secret' || isMasked ? [path] : [];
}

const valueAt = (value: unknown, path: string) =>
  path
    .split('.')
    .slice(1)
    .reduce<unknown>((of, name) => (of as Record<string, unknown> | undefined)?.[name], value);

test('no secret of any key stands in what is told of the system', async () => {
  const whole: Setting<unknown> = schema;
  const paths = secretKeys(whole).map((path) => path.replace(/^\.(projects|hooks)\./, '.$1.Shop.'));
  expect(paths.length).toBeGreaterThanOrEqual(8);
  const unset = paths.filter((path) =>
    CONFIGURATIONS.every((one) => !JSON.stringify(valueAt(one, path) ?? '').includes('QQZZ')),
  );
  expect(unset).toEqual([]);

  const parts = { clock: handClock(), random: seeded(1) };
  for (const yaml of CONFIGURATIONS.map((one) => stringify(one))) {
    const config = load({ yaml });
    const inForce = async () => ({ ...(await ABOUT.inForce()), waiting: ['workers'] });
    const configuration = async () => describeConfig(config);
    const { system } = createConsole({
      ...parts,
      config,
      about: { ...ABOUT, inForce, configuration },
      permissions: createPermissions({ admins: [], viewers: [], purgers: [] }, 'nobody'),
      purgeLog: { latest: async () => ({ complete: true, purges: [] }) },
      statistics: statisticsOf(parts).shared,
      engines: async () => ({ replicas: [] }),
      redis: () => ({ state: 'up', why: undefined, conditions: [] }),
      storageState: async () => ({ driver: 'sqlite', state: 'up' }),
      findings: async () => [],
      metrics: createMetrics(EVENTS, anyName, gauges()),
    });
    const text = JSON.stringify(await system());
    expect(text).toContain('(a secret)');
    expect(text).not.toContain('QQZZ');
    expect(text).toContain('"waiting_for_restart":["workers"]');
  }
});
