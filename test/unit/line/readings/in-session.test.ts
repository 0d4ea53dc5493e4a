import { expect, test } from '@jest/globals';
import { isDeepStrictEqual } from 'node:util';
import { ENGINE_KINDS } from '../../../../src/common/engine-kinds.ts';
import { inSession } from '../../../../src/line/understand.ts';
import { circumstancesOf } from '../../../../src/line/circumstances.ts';
import { understand, type UnderstoodRequest } from '../../../../src/line/understand.ts';
import { IGNORED_PROPERTIES } from '../../../../src/xmla/request/property-policy.ts';
import { discover, execute } from '../../../support/envelopes.ts';
import { fuzzSeed, mutate, randomFrom } from '../../../support/mutate.ts';
import { sizes } from '../../../support/sizes.ts';
import { learntBodies } from './learnt-bodies.ts';

const ENGINE = {
  traits: ENGINE_KINDS.generic,
  settings: { headers: [], delegation: 'forward' } as never,
  engine: { id: 'engine' },
  volatile: [],
  addressee: { project: undefined, query: [] },
};
const CIRCUMSTANCES = circumstancesOf({ 'content-type': 'text/xml' }, ENGINE);
const read = (body: Buffer): Promise<UnderstoodRequest> => understand(CIRCUMSTANCES, body);

const SESSIONS = ['qy3p8o1v5zk2', 'ab12cd34ef56', '000000000000'];
const GUIDS = ['0f8fad5b-d9cb-469f-a165-70867728950e', '7c9e6679-7425-40de-944b-e07fc1f90ae7'];

/** Requests that must go past the cache, as they come in one session with one set of ids. */
const passing: readonly ((session: string, guid: string) => Buffer)[] = [
  ...[
    'DRILLTHROUGH SELECT FROM [Sales]',
    'CREATE SESSION SET [Sales].[S] AS {[Time].[1997]}',
    'UPDATE CUBE [Sales] SET ([Measures].[Unit Sales]) = 1',
    'REFRESH CUBE [Sales]',
    'SELECT Now() ON COLUMNS FROM [Sales]',
    '',
  ].map(
    (statement) => (id: string, guid: string) =>
      execute({
        statement,
        properties: { Catalog: 'FoodMart', DbpropMsmdActivityID: guid },
        session: { kind: 'in', id },
      }),
  ),
  (id, guid) =>
    discover({
      requestType: 'DISCOVER_SESSIONS',
      properties: { DbpropMsmdActivityID: guid },
      session: { kind: 'in', id },
    }),
];

/** Everything that was understood, but for values on which nothing depends. */
function comparable(asked: UnderstoodRequest): unknown {
  const withoutIgnored = ({
    properties,
    ...request
  }: NonNullable<UnderstoodRequest['request']>) => ({
    ...request,
    properties: properties.map(({ name, value }) => [name, IGNORED_PROPERTIES.has(name) || value]),
  });
  const { request, ...rest } = asked;
  return { ...rest, request: request && withoutIgnored(request) };
}

test('a request that must go past the cache is understood as if it had been read, in its own session', async () => {
  const seed = fuzzSeed();
  const random = randomFrom(seed);
  const { find, learn } = learntBodies(CIRCUMSTANCES);
  for (const make of passing) {
    const body = make(SESSIONS[0] ?? '', GUIDS[0] ?? '');
    expect((await read(body)).bypass).toBeDefined();
    expect(await learn(body)).toBe(true);
  }
  const counts = { seed, runs: sizes.recognisedMutations / 10, recognised: 0, other: 0 };
  for (let run = 0; run < counts.runs; run += 1) {
    const make = passing[random(passing.length)];
    if (make === undefined) throw new Error('no request');
    const plain = make(SESSIONS[random(3)] ?? '', GUIDS[random(2)] ?? '');
    const body = random(2) === 0 ? plain : mutate(plain, random);
    const found = find(body);
    if (found === undefined) {
      counts.other += 1;
      continue;
    }
    counts.recognised += 1;
    const recognised = comparable(inSession(found.reading.asked, found.sessionId));
    const whole = comparable(await read(body));
    if (isDeepStrictEqual(recognised, whole)) continue;
    expect({ seed, run, recognised }).toEqual({ seed, run, recognised: whole });
  }
  console.log(`requests understood again: ${JSON.stringify(counts)}`);
  expect(counts.recognised).toBeGreaterThan(counts.runs / 4);
  expect(counts.other).toBeGreaterThan(counts.runs / 10);
});
