import { expect, test } from '@jest/globals';
import * as fc from 'fast-check';
import { stringify } from 'yaml';
import { loadConfig } from '../../../../src/config/load-config.ts';
import { describeConfig } from '../../../../src/config/describe-config.ts';
import { FOLDER, load, mistakes } from '../fake-files.ts';
import { CERTIFICATE, PRIVATE_KEY } from '../pem-samples.ts';
import { sizes } from '../../../support/sizes.ts';
import { codePoint } from '../../../support/code-point.ts';

// Long and odd enough that no message holds it by chance.
const alphabet = [...'QZXJ019', ...'@:/?#{}[]*&!|%\'"\\ \n\t,'];
const secrets = fc
  .array(fc.constantFrom(...alphabet), { minLength: 4, maxLength: 50 })
  .map((characters) => `QQZZ${characters.join('')}`);

/** Any run of four characters of a secret that begins with its letters would give it away. */
function tells(lines: readonly string[]): boolean {
  return lines.some((line) => line.includes('QQZZ'));
}

const SECRET_PLACES = [
  (value: unknown) => ({ engine: { login: 'service', service: { name: 'a', password: value } } }),
  (value: unknown) => ({ engine: { login: 'service', service: { password: value } } }),
  (value: unknown) => ({ engine: { login: 'none', service: { name: 'a', password: value } } }),
  (value: unknown) => ({ engine: { service: value } }),
  (value: unknown) => ({ engine: { login: 'service', service: { name: 'a', pasword: value } } }),
  (value: unknown) => ({ cache: { key_secret: value } }),
  (value: unknown) => ({ hooks: { dbt: { format: 'dbt', secret: value, projects: [] } } }),
  (value: unknown) => ({ cache: { redis: { url: value } } }),
  (value: unknown) => ({ cache: { redis: { url: `redis://:${String(value)}@host/x` } } }),
  (value: unknown) => ({ cache: { redis: value } }),
  (value: unknown) => ({
    cache: { redis: { mode: 'cluster', url: ['redis://a', `redis://u:${String(value)}@b/1`] } },
  }),
  (value: unknown) => ({ cache: { redis: { password: value } } }),
  (value: unknown) => ({ cache: { redis: { url: 'redis://a', username: 'u:', password: value } } }),
  (value: unknown) => ({ cache: { redis: { encryption_key: value, wrong: 1 } } }),
  (value: unknown) => ({ engine: { url: `http://user:${String(value)}@host/` } }),
  (value: unknown) => ({ projects: { a: { watch: { kind: 'url', url: value } } } }),
  (value: unknown) => ({ projects: { a: { watch: { kind: 'file', password: value } } } }),
  (value: unknown) => ({
    projects: { a: { watch: { kind: 'kylin', url: `http://h/?a=${String(value)}` } } },
  }),
  (value: unknown) => ({ engine: { url: `http://host/?password=${String(value)}` } }),
];

test('no message shows a secret of the file, however wrong it is', () => {
  fc.assert(
    fc.property(
      secrets,
      fc.constantFrom(...SECRET_PLACES),
      fc.constantFrom('text', 'list', 'nested'),
      fc.boolean(),
      (secret, place, form, withAnotherMistake) => {
        const value = form === 'text' ? secret : form === 'list' ? [secret] : [{ inner: [secret] }];
        const yaml = stringify({ ...place(value), ...(withAnotherMistake ? { wrong: 1 } : {}) });
        expect(tells(mistakes({ yaml }))).toBe(false);
      },
    ),
    { numRuns: sizes.propertyRuns * 2 },
  );
});

test('no message shows what stands around a mistake in the YAML', () => {
  fc.assert(
    fc.property(
      secrets,
      fc.constantFrom('', '"', "'", '*', '&', '!', '!!', '@', '%', '|', '>', '{', '[', '"\\q'),
      (secret, before) => {
        const yaml = `engine:\n  login: service\n  service:\n    name: a\n    password: ${before}${secret}\n`;
        expect(tells(mistakes({ yaml }))).toBe(false);
      },
    ),
    { numRuns: sizes.propertyRuns * 2 },
  );
});

test('no message shows what came from the environment, at whatever key', () => {
  const places = [
    'listen: { host: V }',
    'listen: { port: V }',
    'listen: { open: [V] }',
    'listen: { open: V }',
    'listen: { certificate: V }',
    'listen: { certificate: V, key: V }',
    'listen: { trusted_proxies: [V] }',
    'listen: { cors: { origins: [V] } }',
    'listen: { cors: { origins: ["https://V/"] } }',
    'auth: { users: V }',
    'auth: { admins: [V, V] }',
    'auth: { verified_for: V }',
    'engine: { url: V }',
    'engine: { kind: V }',
    'engine: { ca: V }',
    'engine: V',
    'cache: { ttl: V }',
    'cache: { memory: V }',
    'cache: { engine_permissions_ignored: V }',
    'projects: { A: { ttl: V } }',
    'projects: { A: V }',
    'projects: V',
    'wrong: V',
    'V',
  ];
  fc.assert(
    fc.property(
      secrets,
      fc.constantFrom(...places),
      fc.constantFrom('"${V}"', '"a${V}b"', '"${W:-x}${V:-y}"'),
      (secret, place, reference) => {
        const lines = mistakes({ yaml: place.replaceAll('V', reference), env: { V: secret } });
        expect(tells(lines)).toBe(false);
      },
    ),
    { numRuns: sizes.propertyRuns * 2 },
  );
});

test('the description of a configuration shows no password', () => {
  const text = describeConfig(
    load({
      yaml: `
engine: { login: service, service: { name: gateway, password: hunter2 } }
cache:
  key_secret: hunter2hunter2hunter2hunter2hunter2
  redis:
    url: "rediss://cache:hunter2@redis.example/0"
    password: hunter2
    encryption_key: hunter2hunter2hunter2hunter2hunter2
projects: { A: { engine: { service: { name: other, password: hunter2 } } } }
hooks: { dbt: { format: dbt, secret: hunter2hunter2hunter2, projects: [A] } }
`,
    }),
  );
  expect(text).not.toContain('hunter2');
  expect(text).toContain('url: rediss://cache:(a secret)@redis.example/0');
  expect(text).toContain('key_secret: (a secret)');
  expect(text).toContain('encryption_key: (a secret)');
  expect(text.match(/password: \(a secret\)/g)).toHaveLength(3);
});

test('the description shows no password of any address of Redis', () => {
  const urls = ['redis://u:hunter2@a:1', 'redis://u:hunter2@b:2'];
  const redis = { mode: 'sentinel', master: 'm', url: urls };
  const text = describeConfig(load({ yaml: stringify({ cache: { redis } }) }));
  expect(text).not.toContain('hunter2');
  expect(text).toContain('- redis://u:(a secret)@a:1\n');
  expect(text).toContain('- redis://u:(a secret)@b:2\n');
});

test.each([
  ['cache: { redis: { url: "redis://a:1" } }'],
  ['cache: { redis: { mode: cluster, url: ["redis://a:1", "redis://b"], namespace: other } }'],
  ['cache: { redis: { mode: sentinel, master: my-master, url: ["rediss://a:1", "rediss://b"] } }'],
  ['cache: { redis: { url: "rediss://a", ca: ca.pem, certificate: a.pem, key: a.key } }'],
  ['cache: { purge: { repeat_after: 90s } }\nlimits: { in_flight: 20MiB }'],
  ['engine: { clear: kylin, url: "http://a/mdx/xmla/{project}", kind: kylin }'],
  ['hooks: { a: { format: kylin5, user: u, projects: { x: X, y: X } } }'],
  ['hooks: { a: { format: kylin5, user: u, projects: [X, Y] } }'],
])('%s is described by a file that reads back as the same', (yaml) => {
  const files = {
    [`${FOLDER}/ca.pem`]: CERTIFICATE,
    [`${FOLDER}/a.pem`]: CERTIFICATE,
    [`${FOLDER}/a.key`]: PRIVATE_KEY,
  };
  const config = load({ yaml, files });
  expect(load({ yaml: describeConfig(config), files })).toEqual(config);
});

test.each([
  ['redis://:hunter2@host', 'redis://:(a secret)@host'],
  ['redis://user:hunt@er2@host:1/0', 'redis://user:(a secret)@host:1/0'],
  ['redis://user@host:6379', 'redis://user@host:6379'],
  ['redis://host:6379/0', 'redis://host:6379/0'],
  ['redis://[::1]:6379', 'redis://[::1]:6379'],
  ['redis://:hunter2@[::1]:6379', 'redis://:(a secret)@[::1]:6379'],
])('%s is described as %s', (url, shown) => {
  const config = load({ yaml: stringify({ cache: { redis: { url } } }) });
  expect(describeConfig(config)).toContain(`url: ${shown}\n`);
});

const escaped = (name: string) => name.split('${').join('$${');

test('a configuration without secrets is described by a file that reads back as the same', () => {
  const projectNames = fc
    .string({ unit: codePoint, minLength: 1, maxLength: 12 })
    .filter((name) => !/\p{Cc}/u.test(name) && !['.', '..'].includes(name) && !name.includes('${'));
  const userNames = fc
    .string({ unit: codePoint, minLength: 1, maxLength: 12 })
    .filter((name) => !/[:\p{Cc}]|^#|^\s|\s$/u.test(name));
  fc.assert(
    fc.property(
      fc.uniqueArray(userNames, { maxLength: 4 }),
      fc.uniqueArray(projectNames, { maxLength: 4 }),
      fc.integer({ min: 1000, max: 86_400_000 }),
      fc.integer({ min: 8 * 1024 * 1024, max: 2 ** 36 }),
      fc.constantFrom('on', 'off'),
      (admins, projects, ttl, memory, cache) => {
        const yaml = stringify({
          auth: { admins: [...admins, '$${'].map(escaped) },
          cache: { ttl: `${ttl}ms`, memory },
          projects: new Map(projects.map((name) => [name, { cache, engine: { kind: 'ssas' } }])),
        });
        const config = load({ yaml });
        const again = loadConfig({
          file: 'described.yaml',
          env: {},
          workingFolder: '/elsewhere',
          readFile: () => new TextEncoder().encode(describeConfig(config)),
        });
        expect(again).toEqual(config);
        expect(config.auth.admins).toEqual([...admins, '$${']);
      },
    ),
    { numRuns: sizes.propertyRuns },
  );
});
