import { afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { datasetOf, wholeAnswer } from '../../bench/answers.ts';
import { contest, expectHit, requestTo } from '../../bench/contest.ts';
import { createHouse, type Engine, type Subject } from '../../bench/house.ts';
import { sendWhenDue } from '../../bench/load/open-loop.ts';
import { template } from '../../bench/questions.ts';
import type { BenchReport } from '../../bench/report.ts';
import { ensureDebianPackages } from '../support/debian-packages.ts';

const MAIN = fileURLToPath(new URL('../../bench/main.ts', import.meta.url));

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'mdx-gateway-bench-test-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

async function bench(...words: string[]): Promise<{ code: unknown; output: string }> {
  const child = spawn(process.execPath, [MAIN, ...words], { stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  const collect = (text: string): void => void (output += text);
  child.stdout.setEncoding('utf8').on('data', collect);
  child.stderr.setEncoding('utf8').on('data', collect);
  const [code] = await once(child, 'close');
  return { code, output };
}

test('a scenario checks its answers, measures in rounds, and writes JSON and a picture', async () => {
  const [json, svg] = [join(folder, 'figures.json'), join(folder, 'picture.svg')];
  const options = ['--quick', '--source', '--no-peers', '--json', json, '--svg', svg];
  const { code, output } = await bench('one-connection', ...options);
  expect([code, output]).toEqual([0, expect.stringContaining('one-connection')]);
  const report = JSON.parse(readFileSync(json, 'utf8')) as BenchReport;
  expect(report.machine).toMatchObject({ node: process.version });
  const [scenario] = report.scenarios;
  expect(scenario?.failed).toBeUndefined();
  // Two of each server.
  expect(scenario?.compared).toBe(4);
  expect(scenario?.subjects?.map(({ name }) => name)).toEqual(['bare', 'gateway']);
  for (const { perSecond } of scenario?.subjects ?? []) expect(perSecond.median).toBeGreaterThan(0);
  expect(readFileSync(svg, 'utf8')).toMatch(/^<svg [^]*one-connection[^]*<\/svg>\n$/);
});

test('scenarios are listed, and a word that is none is refused', async () => {
  const { code, output } = await bench('--list');
  expect([code, output]).toEqual([0, expect.stringMatching(/^memory-2k .*\n[^]*^micro /m)]);
  expect(await bench('nothing')).toMatchObject({ code: 2 });
});

/**
 * A cache that gives these bodies in turn, the last one from then on.
 * @param said what it says of each
 */
async function subject(said: string, bodies: readonly string[], status = 200): Promise<Subject> {
  let at = 0;
  const server = createServer((request, response) => {
    request.resume();
    response.writeHead(status, { 'cache-status': said });
    response.end(bodies[Math.min(at++, bodies.length - 1)]);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  server.unref();
  const { port } = server.address() as AddressInfo;
  return {
    name: 'a cache',
    port,
    path: '/',
    headers: {},
    cpu: () => 0,
    tells: { header: 'cache-status', hit: /; hit/ },
  };
}

describe('a server is not measured', () => {
  const expected = Buffer.from('the answer');

  test('that gives other bytes than the engine, the second time at the latest', async () => {
    const other = await subject('x; hit', ['the answer', 'the Answer']);
    await expect(expectHit(other, '', expected)).rejects.toThrow("other bytes than the engine's");
  });

  test('that does not hit', async () => {
    const miss = await subject('x; fwd=miss', ['the answer']);
    await expect(expectHit(miss, '', expected)).rejects.toThrow('no hit');
  });

  test('and one that does both is', async () => {
    await expectHit(await subject('x; hit', ['the answer']), '', expected);
  });
});

test('a request of an open loop is sent when it is due, though nothing was answered before', async () => {
  const held: (() => void)[] = [];
  const body = template({ size: 2048 });
  const server = createServer((request, response) => {
    request.resume();
    held.push(() => void response.end(wholeAnswer(datasetOf(2048))));
    // The last one is refused.
    if (held.length === 4) response.writeHead(503);
    if (held.length === 4) for (const answer of held) answer();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const to: Subject = { name: 'slow', port, path: '/', headers: {}, cpu: () => 0 };
  const engine = { port: 0, count: async () => 0 };
  const requests = Array.from({ length: 4 }, () => requestTo(to, body));
  const { waits, refused } = await sendWhenDue(to, engine, 1_000, requests);
  expect([waits.length, refused]).toEqual([3, 1]);
  server.close();
});

describe('a round is no measurement', () => {
  const load = (to: Subject) => ({ connections: 1, requests: [requestTo(to, 'a body')] });
  const settings = { quick: true, peers: false, gateway: '', rounds: 1, seconds: 1 };

  /** An engine that so many requests reach in each round. */
  function engineReached(each: number): Engine {
    let asked = 0;
    return { port: 0, count: async () => (asked++ % 2) * each };
  }

  beforeAll(async () => {
    await ensureDebianPackages([{ name: 'wrk', probe: 'wrk' }]);
  });

  test('in which hits reach the engine', async () => {
    const { house } = createHouse(settings, folder, () => {});
    const options = { engine: engineReached(1), reaches: 'none' } as const;
    const run = contest(house, [await subject('x; hit', ['a'])], load, options);
    await expect(run).rejects.toThrow('1 requests reached the engine, though all must be hits');
  });

  test('in which misses do not', async () => {
    const { house } = createHouse(settings, folder, () => {});
    const options = { engine: engineReached(0), reaches: 'all' } as const;
    const run = contest(house, [await subject('x; hit', ['a'])], load, options);
    await expect(run).rejects.toThrow(/0 of \d+ requests reached the engine/);
  });

  test('in which an answer is an error', async () => {
    const { house } = createHouse(settings, folder, () => {});
    const run = contest(house, [await subject('x; hit', ['a'], 500)], load);
    await expect(run).rejects.toThrow('failures under load');
  });
});
