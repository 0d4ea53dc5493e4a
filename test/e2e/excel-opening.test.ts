import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import type { EngineKind } from '../../src/common/engine-kinds.ts';
import { EXCEL_HEADERS } from '../support/excel-session.ts';
import { excelOpening } from '../support/excel-opening.ts';
import { askXmla } from '../support/http-client.ts';
import '../support/patient-redis.ts';
import { type RedisServer, startRedis } from '../support/redis-server.ts';
import { startTestGateway, type TestGateway } from '../support/test-gateway.ts';
import { startToldEngine, USUAL, type ToldEngine } from '../support/told-properties/engine.ts';

/** Begin and end of sessions reach the engine; where it keeps properties, so does each first request that names a catalog. */
const BARS: readonly (readonly [kind: EngineKind, mostAtEngine: number])[] = [
  ['generic', 5],
  ['emondrian', 5],
  ['ssas', 5],
  ['mondrian', 3],
  ['kylin', 7],
];

let redis: RedisServer;
let engine: ToldEngine;
const gateways: TestGateway[] = [];

beforeEach(async () => {
  redis = await startRedis();
});
afterEach(async () => {
  for (const gateway of gateways.splice(0)) await gateway.close();
  await engine?.close();
  await redis?.close();
});

/** @returns the questions that reached the engine */
async function open({ url }: TestGateway): Promise<readonly string[]> {
  const reached: string[] = [];
  let session = '';
  for (const { what, body } of excelOpening()) {
    const before = engine.asked.length;
    const { status, text } = await askXmla(url, body(session), { headers: EXCEL_HEADERS });
    expect([what, status, /<faultstring>.*/.exec(text)?.[0]]).toEqual([what, 200, undefined]);
    if (what === 'begin') session = /SessionId="([^"]*)"/.exec(text)?.[1] ?? '';
    if (engine.asked.length > before) reached.push(what);
  }
  return reached;
}

describe('a workbook of 54 requests that its user opens again', () => {
  test.each(BARS)('asks %s for at most %d of them, also at another gateway', async (kind, most) => {
    engine = await startToldEngine({ kind, nature: USUAL, byUser: true });
    const settings = {
      engine: { url: engine.url, kind, login: 'forward' },
      cache: { lease: '1s', redis: { url: redis.url } },
    };
    const one = await startTestGateway(settings);
    const other = await startTestGateway(settings);
    gateways.push(one, other);
    expect(excelOpening()).toHaveLength(54);
    const first = await open(one);
    const again = await open(one);
    const elsewhere = await open(other);
    console.log(
      `${kind}: ${first.length}, then ${again.length} and ${elsewhere.length} of 54 at the engine: ${again.join(', ')}`,
    );
    expect(first.length).toBeGreaterThan(40);
    expect(again.length).toBeLessThanOrEqual(most);
    expect(elsewhere).toEqual(again);
  });
});
