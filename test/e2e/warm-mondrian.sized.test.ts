import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { startMondrian, type RunningEngine } from '../engine/mondrian.ts';
import { CACHEABLE_REQUESTS } from '../engine/requests.ts';
import { send, shortStatus } from '../support/http-client.ts';
import { sizes, strided } from '../support/sizes.ts';
import { basic, startTestGateway, type TestGateway } from '../support/test-gateway.ts';
import { nextRun, purge } from '../support/warm-up.ts';

/** Java starts, and computes crossjoins of megabytes. */
const SLOW = 600_000;
const REQUESTS = strided(CACHEABLE_REQUESTS, sizes.mondrianStride);

let engine: RunningEngine;
let gateway: TestGateway;
beforeAll(async () => {
  engine = await startMondrian({ isBrief: true });
  gateway = await startTestGateway({
    engine: { url: engine.url, kind: 'mondrian' },
    cache: { share: 'everyone' },
    warm: { mode: 'auto', settle: '1s' },
  });
}, SLOW);
afterAll(async () => {
  await gateway?.close();
  await engine?.close();
}, SLOW);

async function askAll({ url }: { url: string } = gateway, path = '/mdx/xmla') {
  const answers = [];
  for (const { headers, body } of REQUESTS) {
    const all = { ...headers, authorization: basic('ADMIN') };
    answers.push(await send(url, { method: 'POST', path, headers: all, body }));
  }
  return answers;
}

test(
  'after a purge a real Mondrian is asked by the warm-up, and users have hits, byte for byte what it says',
  async () => {
    // Mondrian sorts members as its database does when it reads a level first, and as Java does from then on.
    await askAll(engine, new URL(engine.url).pathname);
    const first = await askAll();
    const before = (await askAll()).map(shortStatus);
    const run = await nextRun(gateway, () => purge(gateway));
    const answers = await askAll();
    const after = answers.map(shortStatus);
    const hits = (all: readonly string[]) => all.filter((status) => status === 'hit').length;
    console.log(
      `${REQUESTS.length} requests: ${hits(before)} hits before the purge, ${hits(after)} at the first ask after it; ${JSON.stringify(run)}`,
    );
    const differ = answers.flatMap(({ body }, at) => (first[at]?.body.equals(body) ? [] : at));
    expect(differ).toEqual([]);
    expect(hits(after)).toBeGreaterThanOrEqual(hits(before) * 0.95);
    expect([run.failed, run.cut]).toEqual([{}, null]);
  },
  SLOW,
);
