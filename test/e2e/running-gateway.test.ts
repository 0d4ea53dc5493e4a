import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { spawn } from 'node:child_process';
import { chmodSync, closeSync, mkdtempSync, openSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { redisHealth } from '../integration/cache/gateways.ts';
import { mddatasetAnswer } from '../support/answers.ts';
import { type Authority, makeAuthority } from '../support/certificates.ts';
import { execute } from '../support/envelopes.ts';
import { freePort } from '../support/free-port.ts';
import { MAIN, PROGRAM_ENVIRONMENT, runMain } from '../support/gateway-process.ts';
import { askXmla, shortStatus, until } from '../support/http-client.ts';
import '../support/patient-redis.ts';
import { withDeadlines } from '../support/patient-redis.ts';
import { startRedis } from '../support/redis-server.ts';
import { sendXml, startStubEngine, type StubEngine } from '../support/stub-engine.ts';
import { startTestGateway, type TestGateway } from '../support/test-gateway.ts';

let engine: StubEngine;
let gateway: TestGateway;
/** Answers what a test tells it to. */
let other: StubEngine;
let folder: string;
let authority: Authority;

const QUERY = execute({ statement: 'SELECT FROM [Sales]', properties: { Catalog: 'Shop' } });
const at = (stub: StubEngine) => `http://127.0.0.1:${stub.port}`;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'mdx-gateway-command-'));
  authority = makeAuthority();
  engine = await startStubEngine(sendXml(mddatasetAnswer()));
  other = await startStubEngine(() => {});
  gateway = await startTestGateway({ engine: { url: engine.url }, auth: { purgers: ['bob'] } });
});
afterAll(async () => {
  await gateway.close();
  await other.close();
  await engine.close();
  authority.remove();
  rmSync(folder, { recursive: true });
});
beforeEach(() => {
  other.seen.length = 0;
});

/** Of ADMIN at the gateway of all tests, where `env` says nothing else. */
const start = (words: readonly string[], env: Record<string, string> = {}, input = '') =>
  runMain(words, {
    input,
    env: {
      MDX_GATEWAY_URL: gateway.url,
      MDX_GATEWAY_USER: 'ADMIN',
      MDX_GATEWAY_PASSWORD: 'admin',
      ...env,
    },
  });
const run = async (...given: Parameters<typeof start>) => {
  const { exit, stdout, stderr } = await start(...given).ended;
  return { exit, stdout, stderr };
};
/** With --json, which changes neither the exit status nor what people are told. */
async function runJson(words: readonly string[], env?: Record<string, string>) {
  const { exit, stdout, stderr } = await run([...words, '--json'], env);
  return { exit, value: JSON.parse(stdout) as Record<string, unknown>, stderr };
}
const asUser = (name: string) => ({
  MDX_GATEWAY_USER: name,
  MDX_GATEWAY_PASSWORD: name.toLowerCase(),
});

describe('status', () => {
  test('says at one look what an operator wants to know, and ends with 0', async () => {
    await askXmla(gateway.url, QUERY);
    await askXmla(gateway.url, QUERY);
    const [text, json] = await Promise.all([run(['status']), runJson(['status'])]);
    expect(text).toEqual({ exit: 0, stderr: '', stdout: expect.anything() });
    expect(text.stdout.trimEnd().split('\n')).toEqual([
      `${gateway.url}: ready`,
      `engine ${engine.url}: up`,
      'Redis: off',
      'storage sqlite: up',
      'purges pending: none',
      'version: ',
      expect.stringMatching(/^memory: 1 entries, 0\.0 of \d+\.0 MiB$/),
      'answers since its start: 1 hits (50.0 % of queries), 1 misses, 0 past the cache, 0 by the gateway itself',
      'latest purge: none',
    ]);
    expect([json.exit, json.stderr]).toEqual([0, '']);
    expect(json.value).toMatchObject({
      url: gateway.url,
      ready: true,
      memory: { entries: 1 },
      answers: { hit: 1, miss: 1, bypass: 0, gateway: 0 },
      engines: [{ url: engine.url, state: 'up' }],
      redis: { state: 'off', purges_owed: 0 },
      storage: { driver: 'sqlite', state: 'up' },
      latest_purge: null,
      not_told: {},
    });
  });

  test('says what the user may not see, which is no failure', async () => {
    const { exit, stdout } = await run(['status'], asUser('alice'));
    expect([exit, stdout]).toEqual([
      0,
      expect.stringMatching(/\nnot told: purges\. Nothing is told: alice is in none of auth\./),
    ]);
  });

  test('of a gateway whose engine is away ends with 3 and says why, on open pages without a login', async () => {
    const away = await startTestGateway({
      engine: { url: 'http://127.0.0.1:1/xmla' },
      listen: { open: ['health'] },
    });
    const { exit, value } = await runJson(['status', '--url', away.url], { MDX_GATEWAY_USER: '' });
    expect([exit, value]).toEqual([
      3,
      expect.objectContaining({
        ready: false,
        engines: [{ url: 'http://127.0.0.1:1/xmla', state: 'down' }],
        not_told: {
          metrics: expect.stringContaining('no login was given (--user)'),
          purges: expect.stringContaining('no login was given (--user)'),
        },
      }),
    ]);
    expect((await run(['status'], { MDX_GATEWAY_USER: '' })).exit).toBe(1);
    await away.close();
  });
});

describe('purge', () => {
  test('says in the words of the interface that it holds, and the next query misses', async () => {
    await askXmla(gateway.url, QUERY);
    expect(await run(['purge', 'Shop'], asUser('bob'))).toEqual({
      exit: 0,
      stdout: 'Shop Cache has been cleared.\n',
      stderr: '',
    });
    expect(shortStatus(await askXmla(gateway.url, QUERY))).toBe('miss stored');
    const { exit, value } = await runJson(['purge']);
    expect([exit, value]).toEqual([
      0,
      expect.objectContaining({ status: 'cleared', scope: 'everything', known: true }),
    ]);
    expect(shortStatus(await askXmla(gateway.url, QUERY))).toBe('miss stored');
  });

  test('of a name that must be encoded reaches that project, and warns of one that no gateway knows', async () => {
    const project = ' Größe/50 % ?#+;=';
    expect(await run(['purge', project])).toEqual({
      exit: 0,
      stdout: `${project} Cache has been cleared.\n`,
      stderr: `mdx-gateway purge: warning: no gateway knows the project "${project}"; is its name right?\n`,
    });
    expect(gateway.events.findLast(({ type }) => type === 'purged')).toMatchObject({
      scope: { project },
    });
  });

  test('without the right, or of a name that no path can carry, purges nothing', async () => {
    const before = gateway.events.filter(({ type }) => type === 'purged').length;
    const [forbidden, ...unfit] = await Promise.all([
      runJson(['purge', 'Shop'], asUser('alice')),
      ...['', '.', '..'].map((name) => run(['purge', name])),
    ]);
    const why = 'Nothing was done: alice is neither in auth.admins nor in auth.purgers.';
    expect(forbidden).toEqual({
      exit: 1,
      value: { error: 'forbidden', message: expect.stringContaining(why) },
      stderr: expect.stringContaining(why),
    });
    expect(unfit.map(({ exit, stdout }) => [exit, stdout])).toEqual(unfit.map(() => [2, '']));
    expect(gateway.events.filter(({ type }) => type === 'purged')).toHaveLength(before);
  });

  test('while Redis does not answer ends with 3: it is pending, and holds when Redis is back', async () => {
    const redis = await startRedis();
    const shared = await startTestGateway({
      engine: { url: engine.url },
      cache: { lease: '100ms', redis: { url: redis.url } },
    });
    const to = { MDX_GATEWAY_URL: shared.url };
    expect(await runJson(['purge'], to)).toMatchObject({ exit: 0, value: { replicas: 1 } });
    await redis.pause();
    await withDeadlines(async () => {
      expect(await runJson(['purge', 'Shop'], to)).toEqual({
        exit: 3,
        stderr: expect.stringMatching(/^mdx-gateway purge: pending: Redis did not confirm/),
        value: expect.objectContaining({
          error: 'purge-failed',
          status: 'purge-failed',
          retry_after: 5,
        }),
      });
      const { exit, stdout } = await run(['status'], to);
      expect([exit, stdout]).toEqual([
        0,
        expect.stringMatching(/\npurges pending: 2; the gateway repeats them\n/),
      ]);
    });
    redis.resume();
    while ((await redisHealth(shared)).purges_owed > 0) await delay(20);
    await shared.close();
    await redis.close();
  });

  test('that is stopped, or broken off, says that it is not known whether it holds', async () => {
    const to = { MDX_GATEWAY_URL: at(other) };
    other.answerWith(() => {});
    const waiting = start(['purge', '--json'], to);
    await until(() => other.seen.length === 1);
    waiting.kill('SIGINT');
    const stopped = await waiting.ended;
    other.answerWith((response) => void response.destroy());
    const broken = await run(['purge', '--json'], to);
    const words = [stopped, broken].map(({ exit, stdout, stderr }) => [
      exit,
      (JSON.parse(stdout) as { error: string }).error,
      stderr.slice(-54),
    ]);
    const doubt = 'It is not known whether the purge holds: call again.\n';
    expect(words).toEqual([
      [1, 'stopped', `. ${doubt}`.slice(-54)],
      [1, 'broken-off', `. ${doubt}`.slice(-54)],
    ]);
  });
});

describe('explain', () => {
  const file = () => join(folder, 'query.xml');
  beforeAll(() => writeFileSync(file(), QUERY));

  test('says what would become of a request, and by what the nearest entry differs', async () => {
    await run(['purge']);
    await askXmla(gateway.url, QUERY);
    const words = ['explain', file(), '--header', 'Content-Type: text/xml; charset=utf-8'];
    const [hit, stdin, differs, program] = await Promise.all([
      run([...words, '--as', 'alice']),
      run(['explain', '-', ...words.slice(2), '--as', 'alice'], {}, String(QUERY)),
      run([...words, '--project', 'Shop']),
      run([...words, '--as', 'alice', '--header', 'user-agent: MSOLAP 16']),
    ]);
    const lines = hit.stdout.trimEnd().split('\n');
    expect([hit.exit, hit.stderr, lines]).toEqual([
      0,
      '',
      [
        'cacheable: it is looked up in the cache',
        'request: Execute by alice; project: none; catalogs: Shop',
        'shared: by user, kept for 12.0 h',
        expect.stringMatching(
          /^memory: an entry of [\d.]+ m?s ago, for [\d.]+ h more; [\d.]+ (Ki)?B, for which/,
        ),
        'Redis: off',
        'under way: no',
        expect.stringMatching(/^epochs: everything \S+, project:shop \S+$/),
      ],
    ]);
    expect(stdin.stdout).toContain('\nmemory: an entry of');
    expect(differs.stdout).toMatch(
      /\nmemory: no entry\n[^]*\nnearest: an entry of [\d.]+ m?s ago, which differs in .*project.*; identity: it is another user's/,
    );
    expect(program.stdout).toMatch(/, which differs in user-agent\n$/);
  });

  test('says why one passes the cache; as JSON what the route says', async () => {
    const broken = await runJson(['explain', join(folder, 'broken.xml')]);
    expect(broken).toMatchObject({ exit: 1, value: { error: 'input' } });
    writeFileSync(join(folder, 'broken.xml'), 'SELECT');
    const { exit, stdout } = await run(['explain', join(folder, 'broken.xml')]);
    expect([exit, stdout.split('\n')]).toEqual([
      0,
      [
        'bypass: it goes to the engine past the cache',
        'request: unknown by ADMIN; project: none; catalogs: none',
        'reason: malformed: The body is not a well-formed XMLA envelope.',
        expect.stringMatching(/^why: /),
        '',
      ],
    ]);
    expect(await runJson(['explain', file(), '--as', 'bob'])).toMatchObject({
      exit: 0,
      value: { user: 'bob', classification: { decision: 'cacheable' }, cache: { redis: 'off' } },
    });
    expect(await runJson(['explain', file()], asUser('bob'))).toMatchObject({
      exit: 1,
      value: { error: 'forbidden', message: expect.stringContaining('not in auth.admins') },
    });
  });
});

test.each(['SIGTERM', 'SIGINT'] as const)(
  'explain that waits for its request ends at %s',
  async (signal) => {
    const file = join(folder, 'seen');
    writeFileSync(file, 'admin', { mode: 0o644 });
    const words = ['explain', '-', '--json', '--password-file', file, '--user', 'ADMIN'];
    const child = spawn(process.execPath, [MAIN, ...words], { env: PROGRAM_ENVIRONMENT });
    let stdout = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
    // The warning of the password file: from then on signals are heard.
    child.stderr.once('data', () => child.kill(signal));
    const exit = await new Promise((resolve) => child.on('close', resolve));
    expect([exit, JSON.parse(stdout)]).toEqual([1, { error: 'input', message: 'cancelled' }]);
  },
);

describe('where nothing takes what a command says', () => {
  const deaf = (words: readonly string[], stdout: 'pipe' | number = 'pipe', stderr = true) =>
    new Promise<unknown[]>((resolve) => {
      const env = {
        ...PROGRAM_ENVIRONMENT,
        MDX_GATEWAY_URL: gateway.url,
        MDX_GATEWAY_USER: 'ADMIN',
        MDX_GATEWAY_PASSWORD: 'admin',
      };
      const child = spawn(process.execPath, [MAIN, ...words], {
        env,
        stdio: ['ignore', stdout, 'pipe'],
      });
      child.stdout?.destroy();
      let said = '';
      child.stderr?.setEncoding('utf8').on('data', (text: string) => (said += text));
      if (!stderr) child.stderr?.destroy();
      child.on('close', (exit) => resolve([exit, said]));
    });

  test.each(['status', 'purge', 'purge --json', 'help', 'version'])(
    '%s ends as it would, and says nothing more',
    async (words) => {
      expect(await deaf(words.split(' '))).toEqual([0, '']);
    },
  );

  test('a purge that warns ends with 0', async () => {
    expect(await deaf(['purge', 'Unknown'], 'pipe', false)).toEqual([0, '']);
  });

  test('a wrong command line ends with 2', async () => {
    expect(await deaf(['purgee', '--json'])).toEqual([2, expect.stringMatching(/^mdx-gateway: /)]);
  });

  test('a full disk is told in a line', async () => {
    const full = openSync('/dev/full', 'w');
    const ended = await Promise.all([deaf(['purge'], full), deaf(['version'], full)]);
    closeSync(full);
    const line = expect.stringMatching(/^mdx-gateway: standard output: ENOSPC[^\n]*\n$/);
    expect(ended).toEqual([
      [0, line],
      [0, line],
    ]);
  });
});

describe('the password', () => {
  const FROM_FILE = { MDX_GATEWAY_PASSWORD: 'wrong' };

  test('is the first line of a file, before that of the environment', async () => {
    const file = join(folder, 'password');
    writeFileSync(file, '\ufeffadmin\r\nanother line\n', { mode: 0o600 });
    const words = ['purge', '--password-file', file];
    expect(await run(words, FROM_FILE)).toMatchObject({ exit: 0, stderr: '' });
    chmodSync(file, 0o644);
    expect(await run(words, FROM_FILE)).toMatchObject({
      exit: 0,
      stderr: `mdx-gateway: warning: ${file} can be read by other users; chmod 600\n`,
    });
    expect(await runJson([...words.slice(0, 2), `${file}-none`])).toMatchObject({
      exit: 1,
      value: { error: 'input', message: expect.stringContaining(`${file}-none`) },
    });
  });

  const ASKED = 'Password of ADMIN: ';
  /** Runs it at a terminal, and does something as soon as the terminal shows a text, once each in their order. */
  async function atTerminal(
    words: string,
    acts: [text: string, act: (type: Type, pid: number) => void][],
  ) {
    const command = `echo $$; exec '${process.execPath}' '${MAIN}' ${words} --url ${gateway.url} --user ADMIN`;
    const child = spawn('script', ['-qec', command, '/dev/null'], { env: PROGRAM_ENVIRONMENT });
    let shown = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      shown += text.replaceAll('\r', '');
      const [next] = acts;
      if (next === undefined || !shown.includes(next[0])) return;
      acts.shift();
      next[1]((keys) => child.stdin.write(keys), Number.parseInt(shown));
    });
    const exit = await new Promise((resolve) => child.on('close', resolve));
    return [exit, shown.replace(/^\d+\n/, '')];
  }
  type Type = (keys: string) => void;

  test('is asked for at a terminal, and not shown', async () => {
    expect(await atTerminal('purge', [[ASKED, (type) => type('admin\r')]])).toEqual([
      0,
      `${ASKED}\nCache has been cleared.\n`,
    ]);
  });

  test('is asked for at a terminal before the request that is typed there', async () => {
    const [exit, shown] = await atTerminal('explain -', [
      [ASKED, (type) => type('admin\r')],
      [`${ASKED}\n`, (type) => type('<a/>\n\u0004')],
    ]);
    expect([exit, shown]).toEqual([
      0,
      expect.stringContaining('\nbypass: it goes to the engine past the cache\n'),
    ]);
  });

  test.each(['SIGTERM', 'SIGINT'] as const)(
    'that is not typed is not waited for at %s',
    async (signal) => {
      expect(
        await atTerminal('status', [[ASKED, (_type, pid) => process.kill(pid, signal)]]),
      ).toEqual([1, `${ASKED}\nmdx-gateway status: cancelled\n`]);
    },
  );

  test('without a terminal must come from elsewhere, and never from the command line', async () => {
    const none = await runJson(['purge'], { MDX_GATEWAY_PASSWORD: '' });
    expect([none.exit, none.value]).toEqual([
      1,
      {
        error: 'input',
        message:
          'there is no terminal to ask for the password of ADMIN; give --password-file FILE, or set MDX_GATEWAY_PASSWORD',
      },
    ]);
    const typed = await runJson(['purge', '--password', 'topsecret']);
    expect([typed.exit, typed.value['error'], typed.stderr]).toEqual([
      2,
      'usage',
      expect.stringMatching(
        /^mdx-gateway: --password is not accepted: all users .*MDX_GATEWAY_PASSWORD/,
      ),
    ]);
    expect(typed.stderr).not.toContain('topsecret');
    const misused = await run(['purge', '--json=1']);
    expect([misused.exit, JSON.parse(misused.stdout)]).toEqual([
      2,
      { error: 'usage', message: expect.stringContaining('--json') },
    ]);
  });

  test('that is wrong ends each command with 1, and is one failed login', async () => {
    const before = gateway.events.length;
    const wrong = { MDX_GATEWAY_USER: 'bob', MDX_GATEWAY_PASSWORD: 'wrong' };
    for (const command of [['status'], ['purge'], ['explain', '-']]) {
      expect([command, await runJson(command, wrong)]).toEqual([
        command,
        {
          exit: 1,
          value: { error: 'unauthenticated', message: expect.stringContaining('of bob failed') },
          stderr: expect.stringMatching(/^mdx-gateway \w+: the login of bob failed: [^\n]+\n$/),
        },
      ]);
    }
    const refused = gateway.events.slice(before).filter(({ type }) => type === 'login-refused');
    expect(refused).toHaveLength(3);
  });
});

describe('a gateway over TLS', () => {
  test('is believed with its authority alone, and what does not fit is said', async () => {
    const { certificate, key } = authority.issue('gateway');
    const secure = await startTestGateway({
      engine: { url: engine.url },
      listen: { certificate, key },
    });
    const to = { MDX_GATEWAY_URL: secure.url };
    const [good, unknown, plain, tls, noPem] = await Promise.all([
      run(['purge', '--ca', authority.certificate], to),
      runJson(['purge'], to),
      runJson(['purge', '--url', secure.url.replace('https:', 'http:')]),
      runJson(['purge', '--url', gateway.url.replace('http:', 'https:')]),
      runJson(['purge', '--ca', key], to),
    ]);
    expect(good).toEqual({ exit: 0, stdout: 'Cache has been cleared.\n', stderr: '' });
    const told = [unknown, plain, tls, noPem].map(({ exit, value }) => [exit, value]);
    expect(told).toEqual([
      [1, { error: 'unreachable', message: expect.stringMatching(/authority.* as --ca$/) }],
      [1, { error: expect.anything(), message: expect.stringContaining('begins with https://') }],
      [1, { error: 'unreachable', message: expect.stringContaining('begins with http://') }],
      [1, { error: 'input', message: `--ca: ${key} holds no certificate (PEM)` }],
    ]);
    await secure.close();
  });
});

describe('what is no gateway', () => {
  test('is not there: nothing was done', async () => {
    const url = `http://127.0.0.1:${await freePort()}`;
    const ended = await Promise.all(
      [['status'], ['purge'], ['explain', '-']].map((words) => runJson([...words, '--url', url])),
    );
    for (const { exit, value, stderr } of ended) {
      expect([exit, value['error']]).toEqual([1, 'unreachable']);
      expect(stderr).toMatch(
        /^mdx-gateway \w+: http:\S+ cannot be reached: connect ECONNREFUSED [^\n]+\n$/,
      );
    }
  });

  const JSON_TYPE = { 'content-type': 'application/json' };
  type Row = [string, number, Record<string, string>, string, error: string, message: RegExp];
  const ANSWERS: Row[] = [
    [
      'a redirect',
      302,
      { location: 'http://user:pw@127.0.0.1:1/x?y' },
      '',
      'redirect',
      /redirects to http:\/\/127\.0\.0\.1:1\/x, which is not followed$/,
    ],
    [
      'the engine itself',
      200,
      { 'content-type': 'text/plain' },
      'Cache has been cleared.',
      'not-a-gateway',
      /status 200, "Cache has been cleared\."\. It is not known/,
    ],
    [
      'a receipt of another purge',
      200,
      JSON_TYPE,
      '{"status":"cleared","scope":{"project":"B"}}',
      'not-a-gateway',
      /It is not known/,
    ],
    [
      'a page of a proxy',
      502,
      { 'content-type': 'text/html' },
      '<h1>Bad\u001b[2J\nGateway</h1>',
      'not-a-gateway',
      /status 502, "Bad \[2J Gateway"\. It is not known/,
    ],
    [
      'a Fault',
      404,
      { 'content-type': 'text/xml' },
      '<Fault><faultstring>No such path</faultstring></Fault>',
      'not-a-gateway',
      /"No such path"; --url names the gateway itself/,
    ],
    [
      'the word of a gateway',
      500,
      JSON_TYPE,
      '{"error":"internal","message":"It failed."}',
      'internal',
      /^It failed\. It is not known/,
    ],
    [
      'too much',
      200,
      JSON_TYPE,
      `"${'x'.repeat(17 * 1024 * 1024)}"`,
      'broken-off',
      /It is not known/,
    ],
  ];
  let ended: Awaited<ReturnType<typeof runJson>>[];
  beforeAll(async () => {
    other.answerWith((response, { url }) => {
      const [, project] = /^\/olap\/mdx\/xmla\/(\d)\/clearCache$/.exec(url) ?? [];
      const [, status = 400, headers, body] = ANSWERS[Number(project)] ?? [];
      response.writeHead(status, headers).end(body);
    });
    const url = `${at(other)}/olap/`;
    ended = await Promise.all(
      ANSWERS.map((_, project) => runJson(['purge', String(project), '--url', url])),
    );
  });

  test.each(ANSWERS)('%s is told, and ends a purge with 1', (what, ...row) => {
    const { exit, value, stderr } = ended[ANSWERS.findIndex(([one]) => one === what)] ?? {};
    const [, , , error, message] = row;
    expect([exit, value]).toEqual([1, { error, message: expect.stringMatching(message) }]);
    expect(stderr).toMatch(/^mdx-gateway purge: \P{Cc}+\n$/u);
  });
});

describe('help and version', () => {
  test('are commands too, for people and for programs', async () => {
    const [all, one, list, version] = await Promise.all([
      run(['help']),
      run(['help', 'purge']),
      runJson(['help', 'purge']),
      runJson(['version']),
    ]);
    expect([all.exit, one.exit, list.exit, version.exit]).toEqual([0, 0, 0, 0]);
    expect(all.stdout).toContain('  mdx-gateway purge [PROJECT] [CONNECTION]\n');
    expect(one.stdout).toMatch(/^ {2}mdx-gateway purge [^]*\n {2}--password-file FILE /);
    expect(list.value).toEqual({
      commands: [
        expect.objectContaining({
          name: 'purge',
          takes: '[PROJECT] [--url URL] [--user NAME] [--password-file FILE] [--ca FILE] [--json]',
        }),
      ],
    });
    expect(version.value).toEqual({ version: expect.stringMatching(/^\d+\.\d+\.\d+$/) });
  });
});
