import { expect, test } from '@jest/globals';
import { whatWaits } from '../../../../src/config/describe-config.ts';
import { FOLDER, load } from '../fake-files.ts';
import { CERTIFICATE, OTHER_CERTIFICATE, OTHER_KEY, PRIVATE_KEY } from '../pem-samples.ts';

const files = {
  [`${FOLDER}/a.pem`]: CERTIFICATE,
  [`${FOLDER}/a.key`]: PRIVATE_KEY,
  [`${FOLDER}/b.pem`]: OTHER_CERTIFICATE,
  [`${FOLDER}/b.key`]: OTHER_KEY,
};
const HTTPS = 'listen: { certificate: a.pem, key: a.key }';
const change = (running: string, next: string) =>
  whatWaits(load({ yaml: running, files }), load({ yaml: next, files }));

test.each([
  ['', '', []],
  ['', 'listen: { host: "::", port: 0, open: [docs] }', ['listen.host', 'listen.port']],
  ['workers: 2\nlog: { level: warn }', '', ['workers']],
  [
    'limits: { head: 8KiB, head_timeout: 20s, body: 1MiB }',
    '',
    ['limits.head', 'limits.head_timeout'],
  ],
  ['', 'cache: { memory: 1GiB, redis: { url: "redis://a" } }', ['cache.memory', 'cache.redis']],
  [
    'cache: { redis: { url: "redis://a" } }',
    'cache: { redis: { url: "redis://a", namespace: other } }',
    ['cache.redis'],
  ],
  ['', 'storage: { path: ./other.sqlite }', ['storage']],
  ['', 'storage: { driver: postgres, url: "postgres://u@h/db" }', ['storage']],
  ['', HTTPS, ['https']],
  [HTTPS, '', ['https']],
  [HTTPS, 'listen: { certificate: b.pem, key: b.key }', []],
])('of a change from %j to %j wait for a restart: %j', (running, next, keys) => {
  expect(change(running, next).waiting).toEqual(keys);
});

test('what waits stays as it was, and all else is as the next configuration says', () => {
  const { config } = change(
    `${HTTPS}\ncache: { memory: 64MiB, redis: { url: "redis://a" } }`,
    `
listen: { port: 1, open: [docs] }
workers: 3
cache: { memory: 1GiB, max_entry: 128MiB, ttl: 1h }
storage: { driver: http, url: "http://h" }
log: { level: debug }
`,
  );
  expect(config).toEqual(
    load({
      yaml: `
listen: { open: [docs], certificate: a.pem, key: a.key }
cache: { memory: 64MiB, max_entry: 64MiB, ttl: 1h, redis: { url: "redis://a" } }
log: { level: debug }
limits: { connections: ${config.limits.connections} }
`,
      files,
    }),
  );
});

test('every other key changes at once', () => {
  const next = `
auth: { provider: engine, admins: [x], purgers: [x], verified_for: 0 }
engine: { kind: ssas, login: forward, url: "http://one/xmla", timeout: 10s }
cache: { ttl: 1h, lease: 100ms, share: everyone, engine_permissions_ignored: true, max_entry: 1MiB }
projects: { A: { cache: off, engine: { login: service, service: { name: a, password: b } } } }
limits: { body: 1MiB, concurrency: 1, queue: 1, per_user: 1 }
log: { level: warn }
`;
  const running = 'projects: { A: { engine: { kind: kylin } }, B: {} }';
  const { config, waiting } = change(running, next);
  expect(waiting).toEqual([]);
  expect(config).toEqual(load({ yaml: next }));
});
