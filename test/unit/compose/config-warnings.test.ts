import { describe, expect, test } from '@jest/globals';
import { X509Certificate } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { configWarnings } from '../../../src/compose/config-warnings.ts';
import { load } from '../config/fake-files.ts';
import { CERTIFICATE, PRIVATE_KEY } from '../config/pem-samples.ts';

const warningsOf = (yaml: string) => configWarnings(load({ yaml }), Date.now());

const KYLIN = 'url: "http://a/mdx/xmla/{project}", kind: kylin';
const REPEAT = 'cache: { purge: { repeat_after: 90s } }';

test('a configuration of which nothing is to be said is not warned of', () => {
  expect(warningsOf('cache: { ttl: 1h }')).toEqual([]);
});

test('a file of roles beside a Redis is warned of', () => {
  expect(warningsOf('cache: { redis: { url: "redis://a" } }')).toEqual([
    expect.stringMatching(/^storage\.driver: sqlite /),
  ]);
});

test('bodies of queries that lie in Redis as they are are warned of', () => {
  const warned = (more: string) =>
    warningsOf(`cache: { redis: { url: "redis://a"${more} } }\nwarm: { mode: auto }`);
  const [, warning] = warned('');
  expect(warning).toMatch(/^warm\.mode: auto .* cache\.redis\.encryption_key would/);
  expect(warned(`, encryption_key: "${'k'.repeat(32)}"`)).toHaveLength(1);
});

test('a repetition that cannot call an engine is warned of, with the engines', () => {
  const [warning, ...more] = warningsOf(
    `${REPEAT}
engine: { ${KYLIN}, clear: kylin, login: forward }
projects:
  Own: { engine: { login: none } }
  Same: { ttl: 1h }
  Plain: { engine: { clear: none } }`,
  );
  expect(more).toEqual([]);
  expect(warning).toMatch(/^cache\.purge\.repeat_after: .*\(engine, projects\.Same\.engine\)/);
});

test('hooks whose messages bring no login for an engine that wants one are warned of', () => {
  const hooks = `
hooks:
  own: { format: dbt, secret: 0123456789abcdef, projects: [Own] }
  dbt: { format: dbt, secret: 0123456789abcdef, projects: [Own, Same] }
  kylin: { format: kylin5, user: ADMIN, projects: [Same] }`;
  const projects = 'projects: { Own: { engine: { clear: none } } }';
  expect(
    warningsOf(`engine: { ${KYLIN}, clear: kylin, login: forward }\n${projects}${hooks}`),
  ).toEqual([expect.stringMatching(/^hooks\.dbt: .* login: service would$/)]);
});

test('of many such engines some are named', () => {
  const projects = Array.from({ length: 9 }, (_, count) => `  P${count}: {}`).join('\n');
  const [warning] = warningsOf(
    `${REPEAT}\nengine: { ${KYLIN}, clear: kylin, login: forward }\nprojects:\n${projects}`,
  );
  expect(warning).toMatch(/projects\.P3\.engine and 5 more\)/);
});

test.each([
  ['without a repetition', `engine: { ${KYLIN}, clear: kylin, login: forward }`],
  ['of engines that are not called', `${REPEAT}\nengine: { ${KYLIN}, login: forward }`],
  ['of engines that need nobody', `${REPEAT}\nengine: { ${KYLIN}, clear: kylin }`],
])('nothing is warned of %s', (_when, yaml) => {
  expect(warningsOf(yaml)).toEqual([]);
});

test('fewer places at the engine than workers are warned of', () => {
  expect(warningsOf('workers: 4\nlimits: { concurrency: 4 }')).toEqual([]);
  expect(warningsOf('workers: 4\nlimits: { concurrency: 3 }')).toEqual([
    expect.stringMatching(/^limits\.concurrency: 3 is less .* 4 workers/),
  ]);
});

test('a project whose name is too long to be reached is warned of', () => {
  const long = 'x'.repeat(256);
  expect(warningsOf(`projects: { ${'x'.repeat(255)}: {} }`)).toEqual([]);
  expect(warningsOf(`projects: { Sales: {}, ${long}: {} }`)).toEqual([
    expect.stringMatching(/^projects\.x{40}…: a name of more than 255 bytes; /),
  ]);
});

test('a key that was withdrawn is accepted whatever it says, and named once', () => {
  for (const value of ['true', 'false', '7', '{}']) {
    expect(warningsOf(`listen: { hot_path: ${value} }`)).toEqual([
      'listen.hot_path: this key was withdrawn and has no effect',
    ]);
  }
});

/** The warnings of a configuration whose files are there when they are looked at again. */
function warnedWith(files: Readonly<Record<string, string>>, yaml: string, now = Date.now()) {
  const folder = mkdtempSync(join(tmpdir(), 'mdx-gateway-warnings-'));
  const placed = Object.entries(files).map(([name, text]) => [join(folder, name), text] as const);
  try {
    for (const [path, text] of placed) writeFileSync(path, text);
    const there = yaml.replaceAll('./', `${folder}/`);
    return configWarnings(load({ yaml: there, files: Object.fromEntries(placed) }), now);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

describe('users with rights', () => {
  const USERS = '# loader:x\nADMIN:$2b$04$x\r\nWarehouse:$2b$04$y\n';
  const warned = (auth: string) =>
    warnedWith({ users: USERS }, `auth: { users: ./users, ${auth} }`);

  test('who are in the users file are not warned of', () => {
    expect(warned('purgers: [Warehouse]')).toEqual([]);
  });

  test('who are not in the users file, as they are spelt, are told in one line', () => {
    expect(warned('admins: [ADMIN, root], purgers: [warehouse, loader]')).toEqual([
      'auth.users: not in this file, so that they cannot log in: root (auth.admins), warehouse (auth.purgers), loader (auth.purgers); letter case counts',
    ]);
  });

  test('are looked for among those of hooks, too', () => {
    const hook = (user: string) => `{ format: kylin5, user: ${user}, projects: [A] }`;
    const hooks = `hooks: { known: ${hook('Warehouse')}, lost: ${hook('kylin')} }`;
    const yaml = `auth: { users: ./users }\n${hooks}`;
    expect(warnedWith({ users: USERS }, yaml)).toEqual([
      expect.stringContaining(' kylin (hooks.lost.user); '),
    ]);
  });

  test('whose logins the engine checks are not looked for', () => {
    const engine = 'engine: { login: forward }';
    expect(warnedWith({}, `auth: { provider: engine, purgers: [x] }\n${engine}`)).toEqual([]);
  });
});

describe('the certificate of the gateway', () => {
  const { validToDate } = new X509Certificate(CERTIFICATE);
  const end = validToDate.getTime();
  const day = 86_400_000;
  const warned = (now: number) =>
    warnedWith(
      { 'own.pem': CERTIFICATE, 'own.key': PRIVATE_KEY },
      'listen: { certificate: ./own.pem, key: ./own.key }',
      now,
    );

  test.each([
    ['is told when it is over', end + 1, 'ended'],
    ['is told within 14 days of its end', end - 14 * day + 1, 'ends'],
  ])('%s', (_what, now, word) => {
    const at = validToDate.toISOString();
    expect(warned(now)).toEqual([
      `listen.certificate: it ${word} at ${at}; renew it, and send SIGHUP`,
    ]);
  });

  test('is not told of before', () => {
    expect(warned(end - 14 * day)).toEqual([]);
  });
});
