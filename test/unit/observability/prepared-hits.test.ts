import { expect, test } from '@jest/globals';
import * as fc from 'fast-check';
import type { GatewayEvent } from '../../../src/events.ts';
import { createMetrics } from '../../../src/observability/metrics.ts';
import { createKnownNames, type KnownNames } from '../../../src/query-cache/known-names.ts';
import { load } from '../config/fake-files.ts';
import { anyName, bodyAccount, handClock } from '../query-cache/fakes.ts';

const metrics = (names: Pick<KnownNames, 'find'> = anyName) =>
  createMetrics(names, {
    memory: () => ({ entries: 0, bytes: 0 }),
    flights: () => ({ flights: 0, waiters: 0 }),
    engine: () => ({ atEngine: 0, waiting: 0 }),
    bodies: bodyAccount().usage,
    connections: () => ({ open: 0, limit: 0 }),
    epochAge: () => undefined,
    owedPurges: () => 0,
  });

/** Those of XMLA answers, without what the process itself does. */
async function page({ registry }: ReturnType<typeof metrics>): Promise<string[]> {
  const lines = (await registry.metrics()).split('\n');
  return lines.filter((line) => /^mdx_gateway_(xmla|engine_seconds)/.test(line)).sort();
}

const hit = (
  project: string,
  bytes: number,
  milliseconds: number,
  saved: number,
): GatewayEvent => ({
  type: 'xmla-answered',
  id: 'id',
  principal: 'A',
  address: '',
  program: '',
  project,
  catalogs: [],
  cubes: '?',
  engine: undefined,
  subject: 'Execute',
  why: '',
  outcome: { kind: 'hit', detail: 'memory' },
  status: 200,
  bytes,
  milliseconds,
  saved,
  complete: true,
});

test('hits that are counted without events are the same hits, whenever the page is read', async () => {
  const amount = fc.nat({ max: 100_000 });
  const one = fc.tuple(fc.constantFrom('', 'Sales', 'a "b"\\'), amount, amount, amount);
  await fc.assert(
    fc.asyncProperty(fc.array(one, { maxLength: 20 }), fc.nat({ max: 20 }), async (hits, at) => {
      const [told, counted] = [metrics(), metrics()];
      for (const [i, [project, ...amounts]] of hits.entries()) {
        told.on(hit(project, ...amounts));
        counted.prepareHits(project)(...amounts);
        if (i === at) expect(await page(counted)).toEqual(await page(told));
      }
      expect(await page(counted)).toEqual(await page(told));
    }),
    { numRuns: 30 },
  );
});

test('a page that is read twice counts nothing twice', async () => {
  const all = metrics();
  all.prepareHits('Sales')(10, 1, 2_000);
  const first = await page(all);
  expect(first).toContain('mdx_gateway_engine_seconds_saved_total{project="Sales"} 2');
  expect(first).toContain(
    'mdx_gateway_xmla_requests_total{outcome="hit",reason="memory",project="Sales"} 1',
  );
  expect(await page(all)).toEqual(first);
  all.prepareHits('Sales')(10, 1, 3_000);
  expect(await page(all)).toContain('mdx_gateway_engine_seconds_saved_total{project="Sales"} 5');
});

test('projects beyond the two hundred that have labels are counted together', async () => {
  const all = metrics();
  for (let i = 0; i < 210; i += 1) all.prepareHits(`p${i}`)(1, 1, 1);
  const lines = (await page(all)).filter((line) => line.startsWith('mdx_gateway_xmla_requests'));
  expect(lines).toHaveLength(201);
  expect(lines).toContain(
    'mdx_gateway_xmla_requests_total{outcome="hit",reason="memory",project="other"} 10',
  );
});

test('a project has a label where its name is known, one for all spellings', async () => {
  const names = createKnownNames({ clock: handClock() });
  names.configure(load({ yaml: 'projects: { Ours: {} }' }));
  const all = metrics(names);
  const labels = async () =>
    new Set((await page(all)).flatMap((line) => /project="([^"]*)"/u.exec(line)?.[1] ?? []));
  for (let i = 0; i < 300; i += 1) all.prepareHits(`invented ${i}`)(1, 1, 1);
  names.answered(['Sales']);
  for (const name of ['SALES', 'sales', 'ours', '']) all.on(hit(name, 1, 1, 1));
  expect(await labels()).toEqual(new Set(['other', 'Sales', 'Ours', '']));
});

test('what is no amount is not counted', async () => {
  const all = metrics();
  const count = all.prepareHits('');
  for (const wrong of [NaN, Infinity, -1]) expect(() => count(wrong, 1, 1)).toThrow(RangeError);
  expect((await page(all)).join()).not.toMatch(/ (NaN|Inf|-)/);
});
