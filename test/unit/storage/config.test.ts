import { describe, expect, test } from '@jest/globals';
import { describeConfig } from '../../../src/config/describe-config.ts';
import { load, mistakes } from '../config/fake-files.ts';
import { CERTIFICATE } from '../config/pem-samples.ts';

const DATABASE = 'postgres://gateway:hunter2@db.example:5432/mdx';
const URL_RULE =
  'storage.url: must be empty, or a URL such as postgres://user:password@db.example:5432/gateway or https://gateway.example/base, without query and fragment (storage.tls switches encryption on); a postgres:// URL has a user, an http:// or https:// URL neither user nor password';
const FILES = { '/etc/gateway/ca.pem': CERTIFICATE };
const ENCRYPTED = 'needs an encrypted connection: tls: true, or an https:// URL';

describe('the storage', () => {
  test('is a file beside the configuration unless something else is said', () => {
    expect(load({ yaml: '' }).storage).toEqual({
      driver: 'sqlite',
      path: '/etc/gateway/data/gateway.sqlite',
    });
  });

  test('of the driver postgres has a short timeout and ten connections', () => {
    const yaml = `storage: { driver: postgres, url: "${DATABASE}" }`;
    expect(load({ yaml }).storage).toEqual({
      driver: 'postgres',
      url: DATABASE,
      tls: false,
      ca: undefined,
      certificate: undefined,
      key: undefined,
      connections: 10,
      timeout: 1_500,
    });
  });

  test('of the driver http waits longer, since the server waits for its own purges', () => {
    const yaml = 'storage: { driver: http, url: "http://roles.example" }';
    expect(load({ yaml }).storage).toMatchObject({ driver: 'http', timeout: 60_000 });
  });

  test.each([
    [
      '{ url: "postgres://u@h/db" }',
      'storage.url: must be empty with driver: sqlite, which takes storage.path',
    ],
    ['{ driver: postgres }', 'storage.url: must be a postgres:// URL with driver: postgres'],
    [
      '{ driver: postgres, url: "http://h" }',
      'storage.url: must be a postgres:// URL with driver: postgres',
    ],
    [
      '{ driver: http, url: "postgres://u@h/db" }',
      'storage.url: must be an http:// or https:// URL with driver: http',
    ],
    [
      '{ login: service, service: { name: a, password: b } }',
      'storage.login: must only be service with driver: http',
    ],
    [
      '{ driver: http, url: "http://h", login: service }',
      'storage.service: is missing; login: service needs service: { name, password }',
    ],
    [
      '{ driver: http, url: "http://h", service: { name: a, password: b } }',
      'storage.service: must only stand together with login: service (login is forward)',
    ],
    ['{ tls: true }', 'storage.tls: must only be true with driver: postgres'],
    ['{ driver: postgres, url: "postgres://u@h/db", ca: ca.pem }', `storage.ca: ${ENCRYPTED}`],
    ['{ ca: ca.pem }', `storage.ca: ${ENCRYPTED}`],
    ['{ driver: mysql }', 'storage.driver: must be one of sqlite, postgres, http (got "mysql")'],
    ['{ path: "" }', 'storage.path: must be the path of a file (got "")'],
    ['{ connections: 0 }', 'storage.connections: must be a whole number between 1 and 100 (got 0)'],
  ])('%s is refused in one line', (storage, line) => {
    expect(mistakes({ yaml: `storage: ${storage}`, files: FILES })).toEqual([line]);
  });

  test.each([
    'mysql://h/db',
    'postgres://h/db',
    'postgres://:pw@h/db',
    'postgres://u@h',
    'postgres://u@h/db?sslmode=disable',
    'postgres://u@h/db#x',
    'https://user:pw@h/',
    'https://h/?q=1',
    'https://h/{project}',
    'https://h/a/../b',
    'h:5432',
  ])('the URL %s is refused without being shown', (url) => {
    expect(mistakes({ yaml: `storage: { driver: postgres, url: "${url}" }` })).toEqual([
      `${URL_RULE} (got (a secret))`,
    ]);
  });

  test('is described with the keys of its driver, without secrets', () => {
    const yaml = `storage: { driver: postgres, url: "${DATABASE}", tls: true, ca: ca.pem }`;
    const described = describeConfig(load({ yaml, files: FILES }));
    expect(described).toContain('postgres://gateway:');
    expect(described).not.toContain('hunter2');
    const remote = `storage: { driver: http, url: "http://h", login: service, service: { name: a, password: hidden } }`;
    expect(describeConfig(load({ yaml: remote }))).not.toContain('hidden');
  });
});

describe('sharing by roles', () => {
  const shared = (rest: string) => mistakes({ yaml: `cache: { share: roles }\n${rest}` });

  test('works with the roles of a file, and of a database without Redis', () => {
    expect(shared('')).toEqual([]);
    expect(shared(`storage: { driver: postgres, url: "${DATABASE}" }`)).toEqual([]);
  });

  test('is refused where the roles are elsewhere', () => {
    expect(shared('storage: { driver: http, url: "http://h" }')).toEqual([
      'cache.share: roles cannot be used with storage.driver: http; the roles are elsewhere',
    ]);
    const yaml = 'projects: { A: { share: roles } }\nstorage: { driver: http, url: "http://h" }';
    expect(mistakes({ yaml })).toEqual([
      'projects.A.share: roles cannot be used with storage.driver: http; the roles are elsewhere',
    ]);
  });

  test('needs the word of the operator where the login of the client is forwarded', () => {
    expect(shared('engine: { login: forward }')).toEqual([
      'cache.share: roles with login: forward needs cache.engine_permissions_ignored: true, because users then see answers that the engine might have refused them',
    ]);
  });
});
