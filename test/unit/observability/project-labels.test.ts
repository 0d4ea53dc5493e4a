import { expect, test } from '@jest/globals';
import { EVENTS } from '../../../src/features/events.ts';
import { createMetrics } from '../../../src/observability/metrics.ts';
import { createKnownNames, type KnownNames } from '../../../src/cache/projects.ts';
import { load } from '../config/fake-files.ts';
import { anyName, handClock, quiet } from '../cache/fakes.ts';
import { gauges } from '../../support/gauges.ts';
import { answered } from '../../support/answered.ts';

const HOUR = 3_600_000;

function setUp(names: Pick<KnownNames, 'find'> = anyName) {
  const clock = handClock();
  const { on, registry } = createMetrics(EVENTS, names, gauges(), clock);
  return {
    clock,
    hit: (project: string) => on(hitOf(project)),
    async page(): Promise<string[]> {
      await quiet();
      return (await registry.metrics()).split('\n').filter((line) => line.includes('project="'));
    },
  };
}

const hitOf = (project: string) => answered({ project, catalogs: [], saved: 2_000 });

const requests = (project: string, count: number) =>
  `mdx_gateway_xmla_requests_total{outcome="hit",reason="memory",project="${project}"} ${count}`;

test('hits are counted by project, and what the engine would have needed for them', async () => {
  const { hit, page } = setUp();
  hit('Sales');
  hit('Sales');
  const first = await page();
  expect(first).toEqual([
    requests('Sales', 2),
    'mdx_gateway_engine_seconds_saved_total{project="Sales"} 4',
  ]);
  expect(await page()).toEqual(first);
});

test('projects beyond the two hundred that have labels are counted together', async () => {
  const { hit, page } = setUp();
  for (let i = 0; i < 210; i += 1) hit(`p${i}`);
  const lines = (await page()).filter((line) => line.startsWith('mdx_gateway_xmla_requests'));
  expect(lines).toHaveLength(201);
  expect(lines).toContain(requests('other', 10));
});

test('a label that was not used for an hour is given to another project, and its counts are dropped', async () => {
  const { hit, page, clock } = setUp();
  for (let i = 0; i < 200; i += 1) hit(`p${i}`);
  await page();
  clock.advance(HOUR - 1);
  hit('p0');
  hit('too early');
  expect(await page()).toContain(requests('other', 1));
  clock.advance(1);
  hit('Sales');
  const after = await page();
  expect(after).toEqual(expect.arrayContaining([requests('p0', 2), requests('Sales', 1)]));
  // Not that of p0, which came first, but was used.
  expect(after.filter((line) => line.includes('"p1"'))).toEqual([]);
  expect(after.filter((line) => line.startsWith('mdx_gateway_xmla_requests'))).toHaveLength(201);
});

test('a name of the configuration has a label, however many others there are', async () => {
  const names = createKnownNames({ clock: handClock() });
  names.configure(load({ yaml: 'projects: { Ours: {} }' }));
  const { hit, page } = setUp(names);
  const others = Array.from({ length: 210 }, (_none, i) => `p${i}`);
  names.answered(others);
  for (const name of [...others, 'ours']) hit(name);
  expect(await page()).toEqual(
    expect.arrayContaining([requests('Ours', 1), requests('other', 10)]),
  );
});

test('a project has a label where its name is known, one for all spellings', async () => {
  const names = createKnownNames({ clock: handClock() });
  names.configure(load({ yaml: 'projects: { Ours: {} }' }));
  const { hit, page } = setUp(names);
  for (let i = 0; i < 300; i += 1) hit(`invented ${i}`);
  names.answered(['Sales']);
  for (const name of ['SALES', 'sales', 'ours', '']) hit(name);
  const labels = (await page()).flatMap((line) => /project="([^"]*)"/u.exec(line)?.[1] ?? []);
  expect(new Set(labels)).toEqual(new Set(['other', 'Sales', 'Ours', '']));
});
