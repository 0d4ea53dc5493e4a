import { describe, expect, test } from '@jest/globals';
import { once } from 'node:events';
import { connect } from 'node:net';
import { execute } from '../support/envelopes.ts';
import { askXmla, portOf, until } from '../support/http-client.ts';
import { gate, sendXml, startStubEngine } from '../support/stub-engine.ts';
import {
  engine,
  folder,
  query,
  OLD,
  NEW,
  workersOf,
  isAlive,
  run,
  serve,
  messages,
  linesOf,
  whoStored,
  warm,
  clearCache,
} from '../support/worker-processes.ts';

describe('a worker', () => {
  test('that is killed is replaced, and the others go on', async () => {
    const { running, url, workers } = await serve();
    await warm(running, url);
    const [killed = 0] = workers;
    process.kill(killed, 'SIGKILL');
    await until(() => messages(running).includes('worker-ended'));
    expect((await askXmla(url, query)).status).toBe(200);
    await until(() => messages(running).includes('worker-listens'));
    expect(linesOf(running, 'worker-ended')).toEqual([
      expect.objectContaining({ pid: killed, exit: 'SIGKILL', level: 'error' }),
    ]);
    const replaced = workersOf(running);
    expect(replaced).toHaveLength(2);
    expect(replaced).not.toContain(killed);
    // The new one answers too.
    while (!whoStored(running).has(3)) await askXmla(url, query);
    expect(linesOf(running, 'listening')).toHaveLength(1);
  });

  test('that stalls holds up no purge, and has nothing old to say when it goes on', async () => {
    const { running, url, workers } = await serve();
    await warm(running, url);
    const [stalled = 0] = workers;
    process.kill(stalled, 'SIGSTOP');
    engine.answerWith(sendXml(NEW));
    // One connection may come to the worker that stalls; it is given no second one.
    const purges = [clearCache(url), clearCache(url)];
    const { status, text } = await Promise.race(purges);
    expect([status, JSON.parse(text)]).toEqual([200, expect.objectContaining({ replicas: 1 })]);
    process.kill(stalled, 'SIGCONT');
    const answers = Array.from({ length: 20 }, async () => (await askXmla(url, query)).text);
    expect(new Set(await Promise.all(answers))).toEqual(new Set([NEW]));
    await Promise.all(purges);
  });
});

/** Two requests that the engine does not answer yet. */
async function slowRequests(url: string) {
  const rest = gate();
  engine.answerWith(async (response, seen) => {
    await rest.opened;
    void sendXml(OLD)(response, seen);
  });
  const before = engine.seen.length;
  const answers = ['A', 'B', 'C', 'D'].map((cube) =>
    askXmla(url, execute({ statement: `SELECT FROM [${cube}]` })),
  );
  await until(() => engine.seen.length === before + answers.length);
  return { answers, letGo: rest.open };
}

describe('a shutdown', () => {
  test.each([
    ['of the primary process', false],
    ['of the whole group of processes', true],
  ])('lets requests finish, takes no new ones, and ends all with 0: %s', async (_what, group) => {
    const { running, url, workers } = await serve();
    const { answers, letGo } = await slowRequests(url);
    if (group) for (const pid of workers) process.kill(pid, 'SIGINT');
    running.kill(group ? 'SIGINT' : 'SIGTERM');
    await until(() => messages(running).includes('shutting down'));
    for (let refused = false; !refused;) {
      const socket = connect(portOf(url), '127.0.0.1');
      refused = await Promise.race([
        once(socket, 'connect').then(() => false),
        once(socket, 'error').then(() => true),
      ]).catch(() => true);
      socket.destroy();
    }
    letGo();
    for (const { status, text } of await Promise.all(answers)) {
      expect([status, text]).toEqual([200, OLD]);
    }
    const { exit, stderr } = await running.ended;
    expect([exit, stderr]).toEqual([0, '']);
    expect(workers.filter(isAlive)).toEqual([]);
    expect(messages(running)).not.toContain('worker-ended');
  });

  test('of a primary process that is killed ends its workers, with what is under way', async () => {
    const { running, url, workers } = await serve();
    const { answers, letGo } = await slowRequests(url);
    running.kill('SIGKILL');
    const gone = 'the primary process is gone: shutting down';
    await until(() => linesOf(running, gone).length === 2);
    letGo();
    for (const { status, text } of await Promise.all(answers)) {
      expect([status, text]).toEqual([200, OLD]);
    }
    await until(() => workers.every((pid) => !isAlive(pid)));
    expect((await running.ended).exit).toBe('SIGKILL');
  });

  test('of a primary process that is killed while its workers start leaves none of them', async () => {
    // They wait a while for a Redis that is away, so they are in the midst of their start.
    const running = run(
      folder.write({
        workers: 2,
        engine: { url: engine.url },
        cache: { redis: { url: 'redis://127.0.0.1:1' } },
      }),
    );
    await until(() => linesOf(running, 'redis-state').length === 2);
    const workers = workersOf(running);
    running.kill('SIGKILL');
    await until(() => workers.every((pid) => !isAlive(pid)));
    expect((await running.ended).exit).toBe('SIGKILL');
  });
});

describe('SIGHUP', () => {
  test('lets a changed configuration count at every worker, and at those that start later', async () => {
    const { running, url, workers } = await serve();
    const other = await startStubEngine(sendXml(NEW));
    folder.write({ workers: 3, engine: { url: other.url }, cache: { lease: '200ms' } });
    running.kill('SIGHUP');
    await until(() => messages(running).includes('configuration reloaded'));
    expect(messages(running)).toContain('these keys change by a restart: workers');
    // What stands in the file counts for nobody before the next signal.
    folder.writeText('engine: { url: nonsense }\n');
    process.kill(workers[0] ?? 0, 'SIGKILL');
    await until(() => messages(running).includes('worker-listens'));
    const answers = Array.from({ length: 12 }, async () => (await askXmla(url, query)).text);
    expect(new Set(await Promise.all(answers))).toEqual(new Set([NEW]));
    expect(workersOf(running)).toHaveLength(2);
    await other.close();
  });

  test('keeps the old configuration when the new one is wrong, and says so in one line', async () => {
    const { running, url } = await serve();
    folder.writeText('engine: { url: nonsense }\n');
    running.kill('SIGHUP');
    await until(() =>
      messages(running).includes('reload failed; keeping the current configuration'),
    );
    expect(linesOf(running, 'reload failed; keeping the current configuration')).toEqual([
      expect.objectContaining({ level: 'error', problem: expect.stringContaining('engine.url') }),
    ]);
    expect((await askXmla(url, query)).status).toBe(200);
  });
});
