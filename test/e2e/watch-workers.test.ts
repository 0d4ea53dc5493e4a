import { beforeEach, expect, test } from '@jest/globals';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { askXmla, until } from '../support/http-client.ts';
import { sendXml } from '../support/stub-engine.ts';
import { engine, folder, linesOf, NEW, query, serve, warm } from '../support/worker-processes.ts';

let path: string;
beforeEach(() => {
  path = join(folder.path, 'loaded');
  writeFileSync(path, 'one');
});

test('of several workers one asks for all, its purges hold for all, and others go on when it is killed', async () => {
  const { running, url, workers } = await serve({
    projects: { learn: { watch: { kind: 'file', path, every: '1s' } } },
  });
  const purges = () => linesOf(running, 'purged');
  await until(() => purges().length === 1);
  await warm(running, url);
  engine.answerWith(sendXml(NEW));
  writeFileSync(path, 'other');
  await until(() => purges().length >= 2);
  const answers = await Promise.all(Array.from({ length: 20 }, () => askXmla(url, query)));
  expect(new Set(answers.map(({ text }) => text))).toEqual(new Set([NEW]));
  await until(() => purges().length === 3);
  expect(new Set(purges().map(({ worker }) => worker)).size).toBe(1);
  for (const pid of workers) process.kill(pid, 'SIGKILL');
  writeFileSync(path, 'another one');
  await until(() => purges().length >= 4);
  expect(purges().map(({ cause }) => cause)).toEqual(purges().map(() => 'watch'));
});
