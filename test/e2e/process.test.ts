import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import {
  cpSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { Agent } from 'node:http';
import { connect, createServer, type AddressInfo } from 'node:net';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { buildGateway } from '../../bench/built-gateway.ts';
import { mddatasetAnswer } from '../support/answers.ts';
import { execute } from '../support/envelopes.ts';
import {
  configFolder,
  enginesAsked,
  listening,
  runCommand,
  runMain,
  type ConfigFolder,
  type GatewayProcess,
} from '../support/gateway-process.ts';
import { askXmla, portOf, send, shortStatus, until } from '../support/http-client.ts';
import { gate, sendXml, startStubEngine } from '../support/stub-engine.ts';
import { basic } from '../support/test-gateway.ts';
import { shared } from '../support/opened.ts';

const engine = shared(() => startStubEngine(() => {}));
let folder: ConfigFolder;
let started: GatewayProcess[] = [];
const query = execute({ statement: 'SELECT FROM [Sales]' });

beforeEach(async () => {
  engine.seen.length = 0;
  engine.answerWith(sendXml(mddatasetAnswer()));
  folder = await configFolder();
});
afterEach(async () => {
  for (const running of started) running.kill('SIGKILL');
  await Promise.all(started.map(({ ended }) => ended));
  started = [];
  folder.remove();
});

const run = (...args: Parameters<typeof runMain>) => {
  const running = runMain(...args);
  started.push(running);
  return running;
};
const serve = async (settings: Record<string, unknown> = {}) => {
  const file = folder.write({ engine: { url: engine.url }, ...settings });
  const running = run(['serve', '--config', file]);
  const url = await listening(running);
  await enginesAsked(running);
  engine.seen.length = 0;
  return { running, url, file };
};
const messages = (running: GatewayProcess) => running.log.map(({ msg }) => msg);

/** The error with which a connection fails; undefined when it is made. */
async function connectionTo(url: string): Promise<string | undefined> {
  const socket = connect(portOf(url), '127.0.0.1');
  try {
    await once(socket, 'connect');
    return undefined;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code;
  } finally {
    socket.on('error', () => {}).destroy();
  }
}

describe('serve', () => {
  test('asks each replica once at the start, says whether it answers as XMLA, and asks no more by itself', async () => {
    const wrong = await startStubEngine(sendXml('<html/>', { status: 404 }));
    const settings = { engine: { url: [engine.url, wrong.url] } };
    const running = run(['serve', '--config', folder.write(settings)]);
    await listening(running);
    await enginesAsked(running, 2);
    const told = running.log.filter(({ msg }) => msg === 'engine-state');
    expect(new Map(told.map(({ url, level, state, why }) => [url, [level, state, why]]))).toEqual(
      new Map([
        [engine.url, ['info', 'up', 'it answers as XMLA']],
        [wrong.url, ['warn', 'down', expect.stringContaining('status 404')]],
      ]),
    );
    expect([engine.seen.length, wrong.seen.length]).toEqual([1, 1]);
    await wrong.close();
  });
});

describe('SIGTERM', () => {
  test.each(['SIGTERM', 'SIGINT'] as const)(
    'as %s lets a slow request finish, takes no new connections, and ends with 0',
    async (signal) => {
      const { running, url } = await serve();
      const rest = gate();
      engine.answerWith(async (response, seen) => {
        await rest.opened;
        void sendXml(mddatasetAnswer())(response, seen);
      });
      // A client that would like to keep its connection must not keep the process.
      const agent = new Agent({ keepAlive: true });
      const slow = askXmla(url, query, { agent });
      const passedThrough = askXmla(url, execute({ statement: 'CALL x()' }), { agent });
      await until(() => engine.seen.length === 2);
      running.kill(signal);
      await until(() => messages(running).includes('shutting down'));
      // It says so just before it does so.
      while ((await connectionTo(url)) !== 'ECONNREFUSED');
      rest.open();
      for (const answer of await Promise.all([slow, passedThrough])) {
        expect([answer.status, answer.text]).toEqual([200, mddatasetAnswer()]);
      }
      const { exit, stderr } = await running.ended;
      expect([exit, stderr]).toEqual([0, '']);
      agent.destroy();
    },
  );

  test('ends an idle gateway at once, also with idle connections', async () => {
    const { running, url } = await serve();
    const agent = new Agent({ keepAlive: true });
    await send(url, { path: '/health/live', agent });
    running.kill('SIGTERM');
    expect((await running.ended).exit).toBe(0);
    agent.destroy();
  });

  test('lets an answer be stored that its client did not wait for, and then ends', async () => {
    const { running, url } = await serve();
    const rest = gate();
    engine.answerWith(async (response, seen) => {
      await rest.opened;
      void sendXml(mddatasetAnswer())(response, seen);
    });
    const agent = new Agent();
    void askXmla(url, query, { agent }).catch(() => {});
    await until(() => engine.seen.length === 1);
    agent.destroy();
    running.kill('SIGTERM');
    await until(() => messages(running).includes('shutting down'));
    rest.open();
    expect((await running.ended).exit).toBe(0);
  });
});

describe('the documented start command', () => {
  const root = join(import.meta.dirname, '../..');
  const read = (path: string) => readFileSync(join(root, path), 'utf8');
  const documents = ['README.md', ...globSync('docs/**/*.md', { cwd: root })];
  /** Lines of code blocks that start the gateway, as they stand. */
  const commands = documents.flatMap((path) =>
    [
      ...read(path).matchAll(/^ *((?:[\w./-]+\/)?(?:mdx-gateway|npx|npm|node)\b.* serve .*)$/gm),
    ].map(([, command = '']) => command),
  );
  let built: string;
  beforeAll(async () => {
    built = mkdtempSync(join(tmpdir(), 'mdx-gateway-installed-'));
    await buildGateway(root, built);
    cpSync(join(root, 'bin'), join(built, 'bin'), { recursive: true });
    renameSync((await configFolder()).path, join(built, 'config'));
  });
  afterAll(() => rmSync(built, { recursive: true, force: true }));

  test('is one, which the image and the unit of systemd use as well', () => {
    expect(commands).toEqual(['bin/mdx-gateway serve --config config/gateway.yaml']);
    expect(read('Dockerfile')).toMatch(/^ENTRYPOINT \["\/app\/bin\/mdx-gateway"\]$/m);
    expect(read('deploy/systemd/mdx-gateway.service')).toMatch(
      /^ExecStart=\/\S+\/bin\/mdx-gateway serve /m,
    );
    expect(read('package.json')).not.toContain('"start"');
  });

  test('reloads at SIGHUP, and ends at SIGTERM and leaves its port', async () => {
    const [command = ''] = commands;
    const file = /--config (\S+)$/.exec(command)?.[1] ?? '';
    const settings = (level: string) =>
      stringify({ listen: { port: 0 }, engine: { url: engine.url }, log: { level } });
    writeFileSync(join(built, file), settings('info'));
    const running = runCommand(command.split(' '), { cwd: built });
    started.push(running);
    const url = await listening(running);
    // Nothing stands between who signals and the gateway.
    expect(running.log.find(({ msg }) => msg === 'listening')?.['pid']).toBe(running.pid);
    running.kill('SIGHUP');
    await until(() => messages(running).includes('configuration reloaded'));
    running.kill('SIGTERM');
    expect((await running.ended).exit).toBe(0);
    expect(await connectionTo(url)).toBe('ECONNREFUSED');
  });

  test('has a thread for each core that compares passwords, beside some for files and names', () => {
    const own = mkdtempSync(join(tmpdir(), 'mdx-gateway-threads-'));
    try {
      cpSync(join(root, 'bin'), join(own, 'bin'), { recursive: true });
      mkdirSync(join(own, 'dist'));
      const shown = `console.log(process.env.UV_THREADPOOL_SIZE)`;
      writeFileSync(join(own, 'dist/main.js'), shown);
      const threads = (UV_THREADPOOL_SIZE?: string) =>
        Number(
          execFileSync(join(own, 'bin/mdx-gateway'), {
            env: { PATH: process.env['PATH'], ...(UV_THREADPOOL_SIZE && { UV_THREADPOOL_SIZE }) },
          }),
        );
      expect(threads()).toBeGreaterThanOrEqual(availableParallelism() + 4);
      expect(threads('7')).toBe(7);
    } finally {
      rmSync(own, { recursive: true });
    }
  });

  test('says what to do before anything is built', async () => {
    rmSync(join(built, 'dist'), { recursive: true });
    const { exit, stderr } = await runCommand(['bin/mdx-gateway', '--help'], { cwd: built }).ended;
    expect([exit, stderr]).toEqual([1, expect.stringMatching(/^mdx-gateway: .* npm run build\n$/)]);
  });
});

describe('SIGHUP', () => {
  let own: ConfigFolder;
  let running: GatewayProcess;
  let url: string;
  beforeAll(async () => {
    own = await configFolder();
    running = runMain(['serve', '--config', own.write({ engine: { url: engine.url } })]);
    url = await listening(running);
    await enginesAsked(running);
  });
  afterAll(async () => {
    running.kill('SIGKILL');
    await running.ended;
    own.remove();
  });
  const reloads = () => messages(running).filter((msg) => msg === 'configuration reloaded').length;
  async function reload(settings: Record<string, unknown>): Promise<void> {
    const before = reloads();
    own.write(settings);
    running.kill('SIGHUP');
    await until(() => reloads() > before);
  }

  test('lets a changed configuration count, while requests under way end as they began', async () => {
    const rest = gate();
    engine.answerWith(async (response, seen) => {
      await rest.opened;
      void sendXml(mddatasetAnswer())(response, seen);
    });
    const slow = askXmla(url, query);
    await until(() => engine.seen.length === 1);
    const other = await startStubEngine(sendXml(mddatasetAnswer({ members: ['new'] })));
    await reload({ engine: { url: other.url }, cache: { ttl: '5m' } });
    expect((await askXmla(url, query)).text).toBe(mddatasetAnswer({ members: ['new'] }));
    rest.open();
    expect((await slow).text).toBe(mddatasetAnswer());
    await other.close();
  });

  test('twice at one time leaves a gateway that works, with the last configuration', async () => {
    const before = reloads();
    for (const ttl of ['1m', '2m', '3m']) {
      own.write({ engine: { url: engine.url }, cache: { ttl } });
      running.kill('SIGHUP');
      running.kill('SIGHUP');
    }
    await until(() => reloads() > before);
    // Some may still be to come, and drop what was cached between.
    let said = '';
    while (said !== 'hit') {
      const answer = await askXmla(url, query);
      said = shortStatus(answer);
      expect([answer.status, ['hit', 'miss stored'].includes(said)]).toEqual([200, true]);
    }
  });

  test('changes log.level at once, and names what waits for a restart', async () => {
    await askXmla(url, query);
    await reload({
      engine: { url: engine.url },
      log: { level: 'debug' },
      cache: { memory: '64MiB', redis: { url: 'redis://127.0.0.1:1' } },
      storage: { path: './other.sqlite' },
    });
    await until(() =>
      messages(running).includes(
        'these keys change by a restart: cache.memory, cache.redis, storage',
      ),
    );
    expect(messages(running)).not.toContain('stored');
    await askXmla(url, execute({ statement: 'SELECT FROM [Level]' }));
    await until(() => messages(running).includes('stored'));
  });

  test('keeps the old configuration when the new one is wrong, and says so in one line', async () => {
    const failed = 'reload failed; keeping the current configuration';
    own.writeText('engine: { url: nonsense }\n');
    running.kill('SIGHUP');
    await until(() => messages(running).includes(failed));
    expect(running.log.filter(({ msg }) => msg === failed)).toEqual([
      expect.objectContaining({ level: 'error', problem: expect.stringContaining('engine.url') }),
    ]);
    expect((await askXmla(url, query)).status).toBe(200);
    running.kill('SIGTERM');
    expect((await running.ended).stderr).toBe('');
  });
});

test('the users file is read again when it changes', async () => {
  const { running, url } = await serve({ auth: { verified_for: 0 } });
  const asBob = () => askXmla(url, query, { user: 'bob' });
  expect((await asBob()).status).toBe(200);
  await folder.writeUsers(['ADMIN', 'alice']);
  await until(() => running.log.filter(({ msg }) => msg === 'users-loaded').length === 2);
  expect((await asBob()).status).toBe(401);
  expect((await askXmla(url, query)).status).toBe(200);
});

describe('a start that fails', () => {
  test.each([
    ['memory only', {}],
    ['Redis', { cache: { redis: { url: 'redis://127.0.0.1:1' } } }],
  ])('because the port is taken says so in one line and ends with 1 (%s)', async (_what, more) => {
    const taken = createServer().listen(0, '127.0.0.1');
    await once(taken, 'listening');
    const { port } = taken.address() as AddressInfo;
    const file = folder.write({ ...more, listen: { port } });
    const { exit, stderr } = await run(['serve', '--config', file]).ended;
    expect(exit).toBe(1);
    expect(stderr).toBe(
      `mdx-gateway: listen: cannot listen on 127.0.0.1:${port}: another program listens there; choose another listen.port\n`,
    );
    taken.close();
  });

  test('because there is no users file prints the command that makes one', async () => {
    const file = folder.write({ auth: { users: './none.htpasswd' } });
    const { exit, stderr } = await run(['serve', '--config', file]).ended;
    expect(exit).toBe(1);
    expect(stderr.trimEnd().split('\n')).toHaveLength(1);
    expect(stderr).toContain('hash-password');
  });
});

test('the log tells a miss by name, and never a password', async () => {
  const { running, url } = await serve({ engine: { url: engine.url, login: 'forward' } });
  await askXmla(url, query, { path: '/mdx/xmla/FoodMart?password=secret1' });
  await send(url, {
    headers: { authorization: `Basic ${Buffer.from('alice:secret2').toString('base64')}` },
  });
  running.kill('SIGTERM');
  const { stdout } = await running.ended;
  expect(running.log).toContainEqual(
    expect.objectContaining({
      msg: 'xmla-answered',
      principal: 'alice',
      project: 'FoodMart',
      subject: 'Execute',
      kind: 'miss',
      status: 200,
    }),
  );
  expect(stdout).not.toMatch(/secret|YWxpY2U/);
  expect(stdout).not.toContain(basic('alice'));
});
