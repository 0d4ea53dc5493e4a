import { expect, test } from '@jest/globals';
import { readFileSync } from 'node:fs';
import { mddatasetAnswer } from '../support/answers.ts';
import { execute } from '../support/envelopes.ts';
import { configFolder, listening, runMain } from '../support/gateway-process.ts';
import { askXmla, until } from '../support/http-client.ts';
import { sendXml, startStubEngine } from '../support/stub-engine.ts';

test('nobody waits for ever whose connection was handed to a worker that dies before it takes it', async () => {
  const engine = await startStubEngine(sendXml(mddatasetAnswer()));
  const folder = await configFolder();
  const file = folder.write({ workers: 2, engine: { url: engine.url } });
  const running = runMain(['serve', '--config', file]);
  const pids: number[] = [];
  try {
    const url = await listening(running);
    const children = readFileSync(`/proc/${running.pid}/task/${running.pid}/children`, 'utf8');
    pids.push(...children.trim().split(' ').map(Number));
    const [stalled = 0] = pids;
    const ask = () =>
      askXmla(url, execute({ statement: 'SELECT FROM [Sales]' })).then(
        ({ status }) => String(status),
        () => 'broken',
      );
    await ask();
    process.kill(stalled, 'SIGSTOP');
    const ends: string[] = [];
    const asked = Array.from({ length: 6 }, async () => ends.push(await ask()));
    // All but the one that is handed to the worker that stands still.
    await until(() => ends.length >= 5);
    process.kill(stalled, 'SIGKILL');
    await Promise.all(asked);
    expect(ends.filter((end) => end === '200').length).toBeGreaterThanOrEqual(5);
    expect(ends.filter((end) => !['200', 'broken'].includes(end))).toEqual([]);
  } finally {
    running.kill('SIGKILL');
    for (const pid of pids) {
      try {
        process.kill(pid, 'SIGKILL');
      } catch {}
    }
    await running.ended;
    folder.remove();
    await engine.close();
  }
});
