import { describe, expect, test } from '@jest/globals';
import { loadConfig } from '../../../src/config/load-config.ts';
import { integer, type Reading } from '../../../src/settings/kinds.ts';
import { ConfigError } from '../../../src/settings/problems.ts';
import { key, section } from '../../../src/settings/setting.ts';
import { fakeReadFile, FOLDER, load, WORKING_FOLDER } from './fake-files.ts';
import { CERTIFICATE, OTHER_CERTIFICATE, OTHER_KEY } from './pem-samples.ts';

const HOUR = 3_600_000;
const MIB = 1024 * 1024;

const DEFAULTS = {
  listen: {
    host: '127.0.0.1',
    port: 7080,
    open: [],
    certificate: undefined,
    key: undefined,
    trusted_proxies: [],
    cors: { origins: [], max_age: 7_200_000 },
  },
  workers: 1,
  warm: { mode: 'off', settle: 30_000, queries: 200, concurrency: 2, budget: 600_000 },
  auth: {
    provider: 'file',
    users: `${FOLDER}/users.htpasswd`,
    admins: ['ADMIN'],
    viewers: [],
    purgers: [],
    verified_for: undefined,
    believed_for: 600_000,
  },
  engine: {
    url: ['http://127.0.0.1:8080/xmla'],
    kind: 'generic',
    login: 'none',
    service: undefined,
    delegation: 'forward',
    headers: [],
    session_idle: undefined,
    clear: 'none',
    timeout: 300_000,
    ca: undefined,
    certificate: undefined,
    key: undefined,
  },
  cache: {
    ttl: 12 * HOUR,
    refresh_ahead: 'on',
    stale_if_error: 0,
    memory: 256 * MIB,
    max_entry: 64 * MIB,
    share: 'user',
    engine_permissions_ignored: false,
    client_control: 'purgers',
    purge_on_refresh_cube: false,
    functions: [],
    volatile: [],
    lease: 1000,
    key_secret: undefined,
    purge: { repeat_after: 0 },
    redis: {
      url: [],
      mode: 'standalone',
      master: undefined,
      username: undefined,
      password: undefined,
      ca: undefined,
      certificate: undefined,
      key: undefined,
      namespace: 'mdx',
      encryption_key: undefined,
    },
  },
  projects: new Map(),
  hooks: new Map(),
  storage: { driver: 'sqlite', path: '/etc/gateway/data/gateway.sqlite' },
  limits: {
    body: 10 * MIB,
    dataset: 32 * MIB,
    concurrency: 64,
    per_user: 16,
    in_flight: 128 * MIB,
    queue: 256,
    names_per_user: 1_000,
    connections: Math.ceil((160 * MIB) / (56 * 1024)),
    head: 16 * 1024,
    head_timeout: 10_000,
  },
  log: { level: 'info', slow: 5_000, statements: 'off' },
  statistics: { text: 'off' },
  memory: { isTight: false },
  withdrawn: [],
};

const withoutFile = (files: Readonly<Record<string, string>>) =>
  loadConfig({
    file: undefined,
    env: {},
    workingFolder: WORKING_FOLDER,
    readFile: fakeReadFile(files),
  });

describe('without a configuration file', () => {
  test('every key has its default, and paths start at the working folder', () => {
    const users = `${WORKING_FOLDER}/users.htpasswd`;
    expect(withoutFile({ [users]: '' })).toEqual({
      ...DEFAULTS,
      auth: { ...DEFAULTS.auth, users },
      storage: { driver: 'sqlite', path: `${WORKING_FOLDER}/data/gateway.sqlite` },
    });
  });

  test('nothing is open by default: without a users file it refuses, and tells how to make one', () => {
    expect(() => withoutFile({})).toThrow(ConfigError);
    expect(() => withoutFile({})).toThrow(
      /^built-in defaults: auth\.users: \/home\/operator\/users\.htpasswd does not exist; make it with: mdx-gateway hash-password NAME >> \.\/users\.htpasswd$/,
    );
  });
});

test.each(['', '# nothing', '{}', 'null', 'cache:\nlisten:\nprojects:\n', 'cache: { redis: ~ }'])(
  'an empty file, or an empty section, is all defaults: %j',
  (yaml) => {
    expect(load({ yaml })).toEqual(DEFAULTS);
  },
);

test('every key can be written', () => {
  const config = load({
    yaml: `
listen:
  { host: '::', port: 0, open: [docs, health], trusted_proxies: [10.0.0.0/8, loopback], hot_path: false,
    cors: { origins: [https://bi.example, 'http://[::1]:3000'], max_age: 0 } }
workers: 4
auth: { provider: file, users: ../passwords, admins: [Anna, "Bo b"], viewers: [eve], purgers: [load], verified_for: 0, believed_for: 5m }
engine:
  url: ["https://one.example/mdx/xmla/{project}", "https://two.example/mdx/xmla/{project}"]
  kind: kylin
  login: service
  service: { name: gateway, password: "12345" }
  delegation: forward
  headers: [X-Tenant, Accept-Language]
  session_idle: 30m
  clear: kylin
  timeout: 10m
cache:
  ttl: 2d
  refresh_ahead: off
  stale_if_error: 4h
  memory: 1GiB
  max_entry: 1048576
  share: everyone
  engine_permissions_ignored: true
  client_control: everybody
  purge_on_refresh_cube: true
  functions: [Today, Assembly.Fn, "%KPI"]
  volatile: [LastDay]
  lease: 250ms
  key_secret: abcdefghijklmnopqrstuvwxyz-0123456789
  purge: { repeat_after: 10m }
  redis:
    url: ["rediss://guard:pw@one.example:26379", "rediss://guard:pw@two.example:26379"]
    mode: sentinel
    master: cache-1
    username: gateway
    password: "0815"
    ca: ./ca.pem
    certificate: tls/a.pem
    key: /keys/a.key
    namespace: mdx.test
    encryption_key: 0123456789-abcdefghijklmnopqrstuvwxyz
hooks:
  kylin: { format: kylin5, user: kylin-hook, projects: { shop: Shop, hr: HR } }
  dbt_1: { format: dbt, secret: 0123456789abcdef, projects: [Shop, HR] }
storage:
  driver: http
  url: https://roles.example/base
  login: service
  service: { name: gateway, password: pw }
  ca: ./ca.pem
  timeout: 5s
limits: { body: 64KiB, dataset: 1MiB, concurrency: 1, per_user: 2, in_flight: 64MiB, queue: 0, names_per_user: 7, connections: 1000, head: 64KiB, head_timeout: 30s }
log: { level: debug, slow: 1s, statements: slow }
statistics: { text: on }
`,
    files: {
      '/etc/passwords': '',
      '/etc/gateway/ca.pem': CERTIFICATE,
      '/etc/gateway/tls/a.pem': OTHER_CERTIFICATE,
      '/keys/a.key': OTHER_KEY,
    },
  });
  const noProof = { user: undefined, secret: undefined };
  const [renamed, same] = [
    ['shop', 'Shop', 'hr', 'HR'],
    ['Shop', 'Shop', 'HR', 'HR'],
  ].map(
    ([a, b, c, d]) =>
      new Map([
        [a, b],
        [c, d],
      ]),
  );
  expect(config).toEqual({
    listen: {
      host: '::',
      port: 0,
      open: ['docs', 'health'],
      certificate: undefined,
      key: undefined,
      trusted_proxies: ['10.0.0.0/8', 'loopback'],
      cors: { origins: ['https://bi.example', 'http://[::1]:3000'], max_age: 0 },
    },
    workers: 4,
    auth: {
      provider: 'file',
      users: '/etc/passwords',
      admins: ['Anna', 'Bo b'],
      viewers: ['eve'],
      purgers: ['load'],
      verified_for: 0,
      believed_for: 300_000,
    },
    engine: {
      url: ['https://one.example/mdx/xmla/{project}', 'https://two.example/mdx/xmla/{project}'],
      kind: 'kylin',
      login: 'service',
      service: { name: 'gateway', password: '12345' },
      delegation: 'forward',
      headers: ['accept-language', 'x-tenant'],
      session_idle: 1_800_000,
      clear: 'kylin',
      timeout: 600_000,
      ca: undefined,
      certificate: undefined,
      key: undefined,
    },
    cache: {
      ttl: 48 * HOUR,
      refresh_ahead: 'off',
      stale_if_error: 4 * HOUR,
      memory: 1024 * MIB,
      max_entry: MIB,
      share: 'everyone',
      engine_permissions_ignored: true,
      client_control: 'everybody',
      purge_on_refresh_cube: true,
      functions: ['Today', 'Assembly.Fn', '%KPI'],
      volatile: ['LastDay'],
      lease: 250,
      key_secret: 'abcdefghijklmnopqrstuvwxyz-0123456789',
      purge: { repeat_after: 600_000 },
      redis: {
        url: ['rediss://guard:pw@one.example:26379', 'rediss://guard:pw@two.example:26379'],
        mode: 'sentinel',
        master: 'cache-1',
        username: 'gateway',
        password: '0815',
        ca: '/etc/gateway/ca.pem',
        certificate: '/etc/gateway/tls/a.pem',
        key: '/keys/a.key',
        namespace: 'mdx.test',
        encryption_key: '0123456789-abcdefghijklmnopqrstuvwxyz',
      },
    },
    projects: new Map(),
    hooks: new Map([
      ['kylin', { ...noProof, format: 'kylin5', user: 'kylin-hook', projects: renamed }],
      ['dbt_1', { ...noProof, format: 'dbt', secret: '0123456789abcdef', projects: same }],
    ]),
    storage: {
      driver: 'http',
      url: 'https://roles.example/base',
      login: 'service',
      service: { name: 'gateway', password: 'pw' },
      ca: '/etc/gateway/ca.pem',
      certificate: undefined,
      key: undefined,
      timeout: 5_000,
    },
    limits: {
      body: 65_536,
      dataset: MIB,
      concurrency: 1,
      per_user: 2,
      in_flight: 64 * MIB,
      queue: 0,
      names_per_user: 7,
      connections: 1_000,
      head: 65_536,
      head_timeout: 30_000,
    },
    log: { level: 'debug', slow: 1_000, statements: 'slow' },
    statistics: { text: 'on' },
    warm: { mode: 'off', settle: 30_000, queries: 200, concurrency: 2, budget: 600_000 },
    memory: { isTight: false },
    withdrawn: ['listen.hot_path'],
  });
});

describe('the environment', () => {
  test('gives texts, numbers, words and booleans, whichever the key wants', () => {
    const config = load({
      yaml: `
listen: { port: "\${PORT}" }
auth: { admins: ["\${ADMIN:-ADMIN}", "\${OTHER:-Olga}"] }
engine:
  url: "http://\${HOST}:\${ENGINE_PORT:-8080}/xmla"
  login: \${LOGIN}
  service: { name: gateway, password: "\${PASSWORD}" }
cache:
  engine_permissions_ignored: \${IGNORED}
  memory: \${MEMORY}
  ttl: \${TTL}
  redis: { url: "\${REDIS:-}" }
`,
      env: {
        PORT: '8443',
        OTHER: '',
        HOST: 'engine.example',
        LOGIN: 'service',
        PASSWORD: '0123',
        IGNORED: 'true',
        MEMORY: '33554432',
        TTL: '30m',
      },
    });
    expect(config.listen.port).toBe(8443);
    expect(config.auth.admins).toEqual(['ADMIN', 'Olga']);
    expect(config.engine.url).toEqual(['http://engine.example:8080/xmla']);
    expect(config.engine.service).toEqual({ name: 'gateway', password: '0123' });
    expect(config.cache).toMatchObject({
      engine_permissions_ignored: true,
      memory: 33_554_432,
      ttl: 1_800_000,
      redis: { url: [] },
    });
  });

  test.each([
    ['$${NAME}', '${NAME}'],
    ['a$b', 'a$b'],
    ['$NAME', '$NAME'],
    ['$$', '$$'],
    ['${NAME}$${NAME}', 'value${NAME}'],
    ['$$${NAME}', '$${NAME}'],
    ['${NAME:-}', 'value'],
    ['${NONE:-a:-b}', 'a:-b'],
    ['${NONE:-$x}', '$x'],
    ['${EVIL}', '"]\n  admins: [MALLORY] # ${NAME} $& $1 \\'],
  ])('the password %j is %j', (written, password) => {
    const { engine, auth } = load({
      yaml: `engine: { login: service, service: { name: a, password: '${written}' } }`,
      env: { NAME: 'value', EVIL: password.replace('\n', ' ') },
    });
    expect(engine.service?.password).toBe(password.replace('\n', ' '));
    expect(auth.admins).toEqual(['ADMIN']);
  });

  test('the default of a reference may be null where the key may be; what comes from outside may not', () => {
    const yaml = 'cache: { memory: "${SIZE:-null}", ttl: "${NONE:-1h}" }';
    expect(load({ yaml }).cache.memory).toBe(load({ yaml: '' }).cache.memory);
    expect(load({ yaml, env: { SIZE: '64MiB' } }).cache.memory).toBe(64 * 1024 * 1024);
    expect(() => load({ yaml, env: { SIZE: 'null' } })).toThrow('cache.memory: must be a size');
  });
});

test('certificates of the gateway and of the engine are checked and given as absolute paths', () => {
  const config = load({
    yaml: 'listen: { certificate: tls/a.pem, key: /keys/a.key }\nengine: { ca: tls/b.pem }',
    files: {
      [`${FOLDER}/tls/a.pem`]: `text before\n${OTHER_CERTIFICATE}${CERTIFICATE}`,
      '/keys/a.key': OTHER_KEY,
      [`${FOLDER}/tls/b.pem`]: CERTIFICATE,
    },
  });
  expect(config.listen.certificate).toBe(`${FOLDER}/tls/a.pem`);
  expect(config.listen.key).toBe('/keys/a.key');
  expect(config.engine.ca).toBe(`${FOLDER}/tls/b.pem`);
});

test('a withdrawn key may stand in the file, has no effect, and is named', () => {
  const former = section({ port: key(integer(0, 9), 1) }, ['speed']);
  const read = (written: object) => {
    const reading: Reading = {
      path: ['listen'],
      folder: '/',
      workingFolder: '/',
      readFile: fakeReadFile({}),
      hiddenPaths: new Set(),
      problems: [],
      withdrawn: [],
    };
    const value = former.read(written, reading);
    return { value, problems: reading.problems, withdrawn: reading.withdrawn };
  };
  expect(read({ speed: [1], port: 2 })).toEqual({
    value: { port: 2 },
    problems: [],
    withdrawn: ['listen.speed'],
  });
  expect(read({}).withdrawn).toEqual([]);
  expect(read({ spped: 1 }).problems).toEqual([
    { path: ['listen', 'spped'], message: 'unknown key; allowed: port' },
  ]);
});
