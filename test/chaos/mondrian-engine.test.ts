import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { setTimeout as sleep } from 'node:timers/promises';
import { ParseOption, XmlDocument } from 'libxml2-wasm';
import { createMemoryTier } from '../../src/cache/memory-tier.ts';
import { keepText, LONG } from '../../src/cache/stored-answer.ts';
import { createBodyAccount } from '../../src/common/body-account.ts';
import { createSemaphore } from '../../src/common/semaphore.ts';
import { systemClock } from '../../src/common/clock.ts';
import type { RefusalReason } from '../../src/common/reasons.ts';
import { watchedIn } from '../../src/features/watch/sources.ts';
import { createSource } from '../../src/features/watch/sources.ts';
import { load } from '../unit/config/fake-files.ts';
import { storedAnswer } from '../unit/cache/fakes.ts';
import { startMondrian } from '../engine/mondrian.ts';
import type { RunningEngine } from '../engine/mondrian.ts';
import { pivot } from '../engine/query.ts';
import { BYPASSED_REQUESTS, CACHEABLE_REQUESTS, REFUSED_REQUESTS } from '../engine/requests.ts';
import type { NamedRequest } from '../engine/requests.ts';
import { createWarehouse } from '../engine/warehouse.ts';

const START_MS = 120_000;
const DEFAULT_MAX_ENTRY = 64 * 1024 * 1024;

interface Answer {
  readonly status: number;
  readonly contentType: string | null;
  readonly body: Buffer;
}

let engine: RunningEngine;

beforeAll(async () => {
  engine = await startMondrian();
}, START_MS);

afterAll(() => engine?.close());

async function ask({ headers, body }: Pick<NamedRequest, 'headers' | 'body'>): Promise<Answer> {
  const answer = await fetch(engine.url, { method: 'POST', headers, body });
  return {
    status: answer.status,
    contentType: answer.headers.get('content-type'),
    body: Buffer.from(await answer.arrayBuffer()),
  };
}

const NAMED_REFERENCES: Readonly<Record<string, string>> = {
  amp: '&',
  lt: '<',
  gt: '>',
  quot: '"',
};

const plainText = (xml: string): string =>
  xml.replaceAll(/&(?:#(\d+)|(\w+));/g, (whole, code?: string, name?: string) =>
    code === undefined
      ? (NAMED_REFERENCES[name ?? ''] ?? whole)
      : String.fromCodePoint(Number(code)),
  );

function wellFormed(xml: Buffer): boolean {
  try {
    XmlDocument.fromBuffer(xml, { option: ParseOption.XML_PARSE_HUGE }).dispose();
    return true;
  } catch {
    return false;
  }
}

const element = (localName: string): RegExp => new RegExp(`<(?:[\\w-]+:)?${localName}[\\s/>]`);

describe('the requests', () => {
  const all = [...CACHEABLE_REQUESTS, ...BYPASSED_REQUESTS, ...REFUSED_REQUESTS];

  test('have names of their own', () => {
    expect(new Set(all.map(({ name }) => name)).size).toBe(all.length);
  });

  test('are distinct where they may be cached', () => {
    const distinct = new Set(CACHEABLE_REQUESTS.map(({ body }) => body));
    expect(distinct.size).toBe(CACHEABLE_REQUESTS.length);
    expect(distinct.size).toBeGreaterThanOrEqual(90);
  });

  test('bring no session where they may be cached', () => {
    for (const { name, body } of CACHEABLE_REQUESTS) {
      expect([name, /Session|:Header|<Header/.exec(body)]).toEqual([name, null]);
    }
  });
});

describe('the engine', () => {
  test.each(CACHEABLE_REQUESTS)(
    'answers "$name" twice with the same bytes, without a Fault and without a session',
    async (request) => {
      const first = await ask(request);
      const second = await ask(request);
      expect(first.status).toBe(200);
      expect(first.contentType).toMatch(/^text\/xml/);
      expect(second.body.equals(first.body)).toBe(true);
      expect(first.body.length).toBeGreaterThanOrEqual(request.atLeastBytes);
      expect(first.body.length).toBeLessThan(DEFAULT_MAX_ENTRY);

      expect(wellFormed(first.body)).toBe(true);

      const xml = first.body.toString('utf8');
      expect(xml).toMatch(element('root'));
      expect(xml).not.toMatch(element('Fault'));
      expect(xml).not.toMatch(element('Session'));
      expect(xml).not.toMatch(/#ERR|EvaluationException/);
      expect(request.holds.filter((text) => !plainText(xml).includes(text))).toEqual([]);
    },
    60_000,
  );

  test('gives at least two answers above 4 MB', () => {
    const large = CACHEABLE_REQUESTS.filter(({ atLeastBytes }) => atLeastBytes >= 4_000_000);
    expect(large.length).toBeGreaterThanOrEqual(2);
  });

  test('adds up what the warehouse holds', async () => {
    const tables = new Map(createWarehouse().map(({ name, rows }) => [name, rows]));
    const idsOf = (table: string, column: number, value: string | number): Set<unknown> =>
      new Set(tables.get(table)?.flatMap((row) => (row[column] === value ? [row[0]] : [])));
    const greek = idsOf('city', 1, 'Ελλάδα');
    const days = idsOf('calendar', 1, 2024);
    const revenue = tables
      .get('sales')
      ?.filter(([day, city]) => greek.has(city) && days.has(day))
      .reduce((sum, row) => sum + Number(row[5]), 0);

    const { body } = await ask(
      pivot(
        'The sales of Greece in 2024',
        'SELECT FROM [Sales] WHERE ([Geography].[Ελλάδα], [Measures].[Revenue], [Time].[2024])',
      ),
    );
    const value = /<Value xsi:type="xsd:double">([^<]*)</.exec(body.toString('utf8'));
    expect(revenue).toBeGreaterThan(0);
    expect(Number(value?.[1])).toBe(revenue);
  });

  test('answers a begun session with a session', async () => {
    const begin = BYPASSED_REQUESTS.find(({ name }) => name === 'Begins a session');
    if (!begin) throw new Error('the request is gone');
    const { body } = await ask(begin);
    expect(body.toString('utf8')).toMatch(/<Session SessionId="\w+"/);
  });

  const refusedBecause: Readonly<Partial<Record<RefusalReason, (answer: Answer) => boolean>>> = {
    fault: ({ status, body }) => status === 200 && element('Fault').test(body.toString('utf8')),
    'error-cell': ({ status, body }) =>
      status === 200 && /#ERR|EvaluationException/.test(body.toString('utf8')),
    'not-well-formed': ({ status, body }) => status === 200 && !wellFormed(body),
    'media-type': ({ contentType }) => contentType?.startsWith('application/json') === true,
  };

  test.each(REFUSED_REQUESTS)(
    'answers "$name" with what must not be stored: $reason',
    async (request) => {
      const isSo = refusedBecause[request.reason];
      expect(isSo?.(await ask(request))).toBe(true);
    },
    60_000,
  );
});

test('a memory of 256 MiB holds more than 1.5 GB of its long answers', async () => {
  const account = createBodyAccount(() => ({ in_flight: 2 ** 30, queue: 0 }));
  const memory = createMemoryTier({ maxBytes: 256 * 2 ** 20, clock: systemClock, account });
  const texts: Buffer[] = [];
  for (const request of CACHEABLE_REQUESTS.filter(({ atLeastBytes }) => atLeastBytes > LONG)) {
    texts.push((await ask(request)).body);
  }
  expect(texts.length).toBeGreaterThanOrEqual(4);
  let bytes = 0;
  for (let entry = 0; bytes < 1.6e9; entry += 1) {
    const text = texts[entry % texts.length] ?? Buffer.of();
    const kept = keepText(() => {});
    kept.write(text);
    const body = await kept.end(undefined);
    memory.set(`entry ${entry}`, storedAnswer({ body, requestedAt: Date.now() }), '');
    bytes += text.length;
  }
  const usage = memory.usage();
  console.log(
    `${(bytes / 1e9).toFixed(2)} GB of text in ${(usage.bytes / 2 ** 20).toFixed(0)} MiB`,
  );
  expect([memory.evictions().all, usage.entries > 0]).toEqual([0, true]);
  memory.clear();
}, 600_000);

describe('watched by its cubes', () => {
  const sourceOf = (kind: string, name = 'Bazaar') => {
    const projects = { [name]: { watch: { kind: 'xmla' } } };
    const [watched] = watchedIn(
      load({ yaml: JSON.stringify({ engine: { url: engine.url, kind }, projects }) }),
    );
    if (watched === undefined) throw new Error('nothing is watched');
    const source = createSource(watched, systemClock, createSemaphore(1));
    return () => source(new AbortController().signal);
  };

  test('it says the same again and again as mondrian, by the date of its schema', async () => {
    const look = sourceOf('mondrian');
    const seen = await look();
    expect(seen).toMatch(/Bazaar Sales \d{4}-\d\d-\d\dT/);
    await sleep(1_100);
    expect(await look()).toBe(seen);
  });

  test('as another kind it is blind: this one tells no date of its data', async () => {
    await expect(sourceOf('generic')()).rejects.toThrow(
      'it shows no LAST_DATA_UPDATE of its cubes',
    );
  });

  test('of a catalog that it does not have it says so', async () => {
    await expect(sourceOf('mondrian', 'Bazar')()).rejects.toThrow('it answered with a Fault');
  });
});

describe('starting', () => {
  test('two engines side by side works', async () => {
    const other = await startMondrian();
    try {
      expect(other.url).not.toBe(engine.url);
    } finally {
      await other.close();
    }
    await expect(fetch(other.url)).rejects.toThrow('fetch failed');
  }, 120_000);

  test('on a port that is taken says what went wrong', async () => {
    const port = Number(new URL(engine.url).port);
    await expect(startMondrian({ port })).rejects.toThrow(/did not start[^]*Failed to bind/);
  }, 120_000);
});
