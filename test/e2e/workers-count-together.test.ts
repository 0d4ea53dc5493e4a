import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { WRITE_DEADLINE } from '../../src/workers/shared.ts';
import { askXmla, send, until } from '../support/http-client.ts';
import { childrenOf, processEnded, signalProcess } from '../support/oracle/process-states.ts';
import { basic } from '../support/test-gateway.ts';
import { engine, query, serveForAll, type SharedHouse } from '../support/worker-processes.ts';

const WORKERS = 3;
/** After so long (ms) a request that is not counted was lost. */
const PATIENCE = 10_000;

/** Each request has a connection of its own: they come to the workers in turn. */
let house: SharedHouse;
beforeAll(async () => {
  house = await serveForAll({ workers: WORKERS, engine: { url: engine.url } });
});
afterAll(() => house.close());

async function metrics(): Promise<string> {
  const headers = { authorization: basic('bob') };
  const { status, text } = await send(house.url, { path: '/metrics', headers });
  expect(status).toBe(200);
  return text;
}

/**
 * The first page for which all workers answered in time: the figures of one that did not are those of before.
 * @param requests that were answered; a client may have its answer just before it is counted
 */
async function pageOfAll(requests = 0): Promise<string> {
  const deadline = performance.now() + PATIENCE;
  for (;;) {
    const page = await metrics();
    const workers = total(page, 'workers');
    expect(workers).toBeLessThanOrEqual(WORKERS);
    const isCounted = total(page, 'xmla_requests_total') >= requests;
    if (workers === WORKERS && (isCounted || performance.now() > deadline)) return page;
  }
}

/** The sum of all series of a metric. */
function total(page: string, name: string): number {
  return page
    .split('\n')
    .filter(
      (line) => line.startsWith(`mdx_gateway_${name}{`) || line.startsWith(`mdx_gateway_${name} `),
    )
    .reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0);
}

test('GET /metrics shows the figures of all workers, whichever of them is asked', async () => {
  const { url } = house;
  for (let asked = 0; asked < 10 * WORKERS; asked += 1) {
    expect((await askXmla(url, query)).status).toBe(200);
  }
  for (let asked = 0; asked < 2 * WORKERS; asked += 1) {
    const page = await pageOfAll(10 * WORKERS);
    expect(total(page, 'xmla_requests_total')).toBe(10 * WORKERS);
    expect(total(page, 'xmla_seconds_count')).toBe(10 * WORKERS);
    expect(total(page, 'stored_total')).toBe(WORKERS);
    expect(total(page, 'memory_entries')).toBe(WORKERS);
  }
});

test('GET /metrics shows whether each engine answers, and whether the last reload went well, as the primary process knows it', async () => {
  const { running } = house;
  const states = async () =>
    (await pageOfAll()).split('\n').filter((line) => /^mdx_gateway_(up\{|config_)/.test(line));
  const up = `mdx_gateway_up{part="engine",name="${engine.url}"} 1`;
  expect(await states()).toEqual(
    expect.arrayContaining([up, 'mdx_gateway_config_last_reload_successful 1']),
  );
  house.write({ workers: WORKERS, engine: { url: 'nonsense' } });
  running.kill('SIGHUP');
  await until(() => running.log.some(({ level }) => level === 'error'));
  expect(await states()).toEqual(
    expect.arrayContaining([up, 'mdx_gateway_config_last_reload_successful 0']),
  );
  house.write({ workers: WORKERS, engine: { url: engine.url } });
  running.kill('SIGHUP');
  await until(() => running.log.some(({ msg }) => msg === 'configuration reloaded'));
  expect(await states()).toEqual(
    expect.arrayContaining([up, 'mdx_gateway_config_last_reload_successful 1']),
  );
});

test('who guesses a password has no more tries at several workers than at one', async () => {
  const { url } = house;
  const begun = performance.now();
  /** Those for which the primary process, which counts, may have been too late: their workers decide alone. */
  let alone = 0;
  const statuses: number[] = [];
  for (let guess = 0; guess < 15 * WORKERS; guess += 1) {
    const authorization = `Basic ${Buffer.from(`ADMIN:guess ${guess}`).toString('base64')}`;
    const asked = performance.now();
    statuses.push((await askXmla(url, query, { headers: { authorization } })).status);
    if (performance.now() - asked >= WRITE_DEADLINE) alone += 1;
  }
  const refilled = Math.ceil((performance.now() - begun) / 6_000);
  const tried = statuses.filter((status) => status === 401).length;
  expect(tried).toBeGreaterThanOrEqual(10);
  expect(tried).toBeLessThanOrEqual(10 + refilled + alone);
  expect(statuses.filter((status) => status === 429)).toHaveLength(statuses.length - tried);
  // All of them were counted, wherever they came to.
  expect(total(await pageOfAll(), 'logins_refused_total')).toBe(statuses.length);
});

test('GET /metrics shows no counter that goes back when a worker stands still, is killed or is replaced', async () => {
  const { url, running } = house;
  const before = 25 * WORKERS;
  expect(total(await pageOfAll(before), 'xmla_requests_total')).toBe(before);
  for (let asked = 0; asked < 10 * WORKERS; asked += 1) await askXmla(url, query);
  const seen = [total(await pageOfAll(before + 10 * WORKERS), 'xmla_requests_total')];
  const look = async () => {
    const page = await metrics();
    seen.push(total(page, 'xmla_requests_total'));
    return total(page, 'workers');
  };
  expect(seen).toEqual([before + 10 * WORKERS]);

  const pids = childrenOf(running.pid);
  const [victim = 0] = pids;
  expect(pids).toHaveLength(WORKERS);
  signalProcess(victim, 'SIGSTOP');
  // What came to the one that stands still waits for it; the others answer.
  const asked = [look(), look(), look(), look()];
  let workers = await Promise.race(asked);
  while (workers < WORKERS - 1) {
    // Another one was late as well.
    const more = [look(), look()];
    asked.push(...more);
    workers = await Promise.race(more);
  }
  expect(workers).toBe(WORKERS - 1);
  signalProcess(victim, 'SIGCONT');
  await Promise.all(asked);
  signalProcess(victim, 'SIGKILL');
  await processEnded(victim);
  await look();
  await until(() => running.log.some(({ msg }) => msg === 'worker-listens'));
  while ((await look()) !== WORKERS);
  await askXmla(url, query);
  seen.push(total(await pageOfAll(before + 10 * WORKERS + 1), 'xmla_requests_total'));
  expect(seen).toEqual([...seen].sort((one, other) => one - other));
  expect(seen.at(-1)).toBe(before + 10 * WORKERS + 1);
});
