import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { compare } from 'bcrypt';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { faultAnswer } from '../support/answers.ts';
import { configFolder, listening, runMain, type ConfigFolder } from '../support/gateway-process.ts';
import { startRedis } from '../support/redis-server.ts';
import { sampled } from '../support/sizes.ts';
import { sendXml, startStubEngine } from '../support/stub-engine.ts';

let folder: ConfigFolder;
beforeAll(async () => {
  folder = await configFolder();
});
afterAll(() => folder.remove());

/** Each starts a process of its own, on a machine with few cores. */
const AT_ONE_TIME = 4;

async function inGroups<T, R>(all: readonly T[], one: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  for (let from = 0; from < all.length; from += AT_ONE_TIME) {
    results.push(...(await Promise.all(all.slice(from, from + AT_ONE_TIME).map(one))));
  }
  return results;
}

/** Each holds one mistake. */
const WRONG: readonly (readonly [yaml: string, key: string, allowed: string])[] = [
  ['cache: { ttl: soon }', 'cache.ttl', 'a duration such as 12h'],
  ['cache: { ttl: 99d }', 'cache.ttl', 'between 1s and 30d'],
  ['cache: { memory: 1kB }', 'cache.memory', 'between 1MiB and'],
  ['cache: { max_entry: 512MiB }', 'cache.max_entry', 'cache.memory'],
  ['cache: { share: all }', 'cache.share', 'user, roles, everyone'],
  ['cache: { tll: 1h }', 'cache.tll', 'ttl'],
  ['cache: { lease: 1m }', 'cache.lease', 'between 100ms and'],
  ['cache: { key_secret: short }', 'cache.key_secret', '32'],
  ['cache: { redis: { url: "http://a" } }', 'cache.redis.url', 'redis://'],
  ['cache: { share: everyone }\nengine: { login: forward }', 'cache', 'engine_permissions_ignored'],
  ['listen: { port: 70000 }', 'listen.port', 'between 0 and 65535'],
  ['listen: { open: [all] }', 'listen.open[0]', 'metrics, health, docs'],
  ['listen: { certificate: ./c.pem }', 'listen', 'key'],
  ['listen: { trusted_proxies: [everybody] }', 'listen.trusted_proxies[0]', '10.0.0.0/8'],
  ['auth: { admins: ADMIN }', 'auth.admins', 'a list'],
  ['engine: { url: "ftp://a" }', 'engine.url', 'http:// or https://'],
  ['engine: { url: "http://a/{cube}" }', 'engine.url', '{project}'],
  ['engine: { login: service }', 'engine.service', 'name'],
  ['engine: { kind: essbase }', 'engine.kind', 'mondrian'],
  ['engine: { ca: ./none.pem }', 'engine.ca', 'none.pem'],
  ['projects: { "..": { ttl: 1h } }', 'projects', 'not . or ..'],
  ['projects: { A: { cache: maybe } }', 'projects', 'off'],
  ['limits: { concurrency: 0 }', 'limits.concurrency', 'between 1 and 10000'],
  ['log: { level: loud }', 'log.level', 'trace, debug, info'],
  ['store: { driver: sqlite }', 'store', 'listen, workers, auth, engine, cache'],
  ['storage: { driver: mysql }', 'storage.driver', 'sqlite, postgres, http'],
  ['cache: { ttl: "${MISSING}" }', 'cache.ttl', 'MISSING'],
  ['cache:\n  ttl: 1h\n  ttl: 2h', 'line 3', 'twice'],
  ['cache: [', 'gateway.yaml', 'line'],
];

const TRIED = sampled(WRONG, 2);

describe('a wrong configuration', () => {
  test('stops serve and check with one line that names the key and what is allowed', async () => {
    const files = await Promise.all(
      TRIED.map(async ([yaml]) => {
        const own = await configFolder();
        return { own, file: own.writeText(`${yaml}\n`) };
      }),
    );
    const commands = TRIED.map((_, index) => ({
      file: files[index]?.file ?? '',
      command: index % 2 === 1 ? 'check' : 'serve',
    }));
    const ended = await inGroups(
      commands,
      ({ file, command }) => runMain([command, '--config', file]).ended,
    );
    for (const [index, { exit, stdout, stderr }] of ended.entries()) {
      const [yaml, key, allowed] = TRIED[index] ?? ['', '', ''];
      const lines = stderr.trimEnd().split('\n');
      expect([yaml, exit, stdout, lines.length]).toEqual([yaml, 1, '', 1]);
      for (const part of [key, allowed]) {
        expect([yaml, lines[0]]).toEqual([yaml, expect.stringContaining(part)]);
      }
    }
    for (const { own } of files) own.remove();
  }, 120_000);
});

describe('the command line', () => {
  test('that is wrong ends with 2 and one line', async () => {
    const ended = await inGroups(
      sampled([['serv'], ['serve', '--confg', 'x'], ['serve', 'extra'], ['check'], ['--config']]),
      (words) => runMain(words).ended,
    );
    for (const { exit, stdout, stderr } of ended) {
      expect([exit, stdout]).toEqual([2, '']);
      expect(stderr).toMatch(/^mdx-gateway: [^\n]+\n$/);
    }
  });

  test('--help and --version print to standard output and end with 0', async () => {
    const [help, version] = await Promise.all([
      runMain(['--help']).ended,
      runMain(['--version']).ended,
    ]);
    expect([help.exit, help.stderr, version.exit, version.stderr]).toEqual([0, '', 0, '']);
    expect(help.stdout).toContain('mdx-gateway check --config FILE');
    expect(version.stdout).toMatch(/^\d+\.\d+\.\d+\n$/);
  });

  test('check prints the configuration in effect, without its secrets', async () => {
    const file = folder.write({
      cache: { ttl: '5m', key_secret: 'k'.repeat(40), redis: { url: 'redis://u:topsecret@h:1' } },
    });
    const { exit, stdout, stderr } = await runMain(['check', '--config', file]).ended;
    expect(exit).toBe(0);
    expect(stderr).toMatch(/^mdx-gateway: warning: storage\.driver: sqlite [^\n]+\n$/);
    expect(stdout).toMatch(/^ {2}ttl: 5m$/m);
    expect(stdout).toMatch(/\n# warm-up: off\n$/);
    expect(stdout).not.toMatch(/kkkk|topsecret/);
  });

  test('check --connect says of engines, Redis and storage in a line each whether they answer', async () => {
    const engine = await startStubEngine(sendXml(faultAnswer()));
    const redis = await startRedis();
    const check = async (settings: Record<string, unknown>) => {
      const file = folder.write(settings);
      const { exit, stdout } = await runMain(['check', '--config', file, '--connect']).ended;
      return { exit, lines: stdout.trimEnd().split('\n\n').at(-1)?.split('\n') };
    };
    const storage = { path: './none/gateway.sqlite' };
    const good = await check({
      engine: { url: engine.url },
      cache: { redis: { url: redis.url } },
      storage,
    });
    expect(good).toEqual({
      exit: 0,
      lines: [
        `engine ${engine.url}: up: it answers as XMLA`,
        `functions of ${engine.url}: unknown: it does not answer MDSCHEMA_FUNCTIONS (status 200)`,
        `formulas of ${engine.url}: unknown: it does not answer DBSCHEMA_CATALOGS (status 200)`,
        'Redis: up: it answers (standalone)',
        expect.stringMatching(/^storage sqlite: off: \S+gateway\.sqlite is not there yet/),
      ],
    });
    // What it would make might belong to another user than the service.
    expect(existsSync(join(folder.path, 'none'))).toBe(false);
    const url = redis.url.replace('redis:', 'http:');
    const wrong = await check({
      engine: { url },
      cache: { redis: { url: 'redis://127.0.0.1:1' } },
      storage: { driver: 'http', url: 'http://127.0.0.1:1' },
    });
    expect(wrong).toEqual({
      exit: 1,
      lines: [
        expect.stringMatching(/^engine http:\S+: down: ./),
        'Redis: down: connect ECONNREFUSED 127.0.0.1:1',
        'storage http: down: it takes no connections',
      ],
    });
    const plain = await check({ engine: { url: engine.url } });
    expect([plain.exit, plain.lines?.slice(-2)]).toEqual([
      0,
      ['Redis: off: cache.redis.url is empty', expect.stringMatching(/^storage sqlite: /)],
    ]);
    await redis.close();
    await engine.close();
  });

  test('check, and the log at the start, tell of users with rights who cannot log in', async () => {
    const file = folder.write({ auth: { purgers: ['loader'] } });
    const warning = /^auth\.users: not in this file.*: loader \(auth\.purgers\);/;
    const { exit, stderr } = await runMain(['check', '--config', file]).ended;
    expect([exit, stderr.replace('mdx-gateway: warning: ', '')]).toEqual([
      0,
      expect.stringMatching(warning),
    ]);
    const running = runMain(['serve', '--config', file]);
    await listening(running);
    running.kill('SIGTERM');
    await running.ended;
    expect(running.log.map(({ msg }) => msg)).toContainEqual(expect.stringMatching(warning));
  });

  test('check tells how many connections fit in the heap that Node.js was given', async () => {
    const file = folder.write({});
    const connections = async (heap: string) => {
      const env = { NODE_OPTIONS: `--max-old-space-size=${heap}` };
      const { stdout } = await runMain(['check', '--config', file], { env }).ended;
      return Number(/^ {2}connections: (\d+)$/m.exec(stdout)?.[1]);
    };
    const [small, large] = await Promise.all([connections('128'), connections('256')]);
    expect(small).toBeGreaterThan(500);
    expect(large).toBeGreaterThan(small + 500);
    expect(large).toBeLessThan(2_000);
  });

  test('hash-password makes a line that the users file takes', async () => {
    const { exit, stdout } = await runMain(['hash-password', 'carol'], { input: 'pä ss\n' }).ended;
    expect(exit).toBe(0);
    const [name, hashed = ''] = stdout.trimEnd().split(':');
    expect(name).toBe('carol');
    expect(await compare('pä ss', hashed.replace(/^\$2y\$/, '$2b$'))).toBe(true);
  });

  test('without a configuration serves with the defaults, or says what is missing', async () => {
    const { exit, stderr } = await runMain([], { cwd: '/' }).ended;
    expect(exit).toBe(1);
    expect(stderr).toMatch(/^[^\n]*auth\.users[^\n]*hash-password[^\n]*\n$/);
  });
});
