import { Session } from 'node:inspector/promises';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { array, assert, asyncProperty, constantFrom, nat, tuple } from 'fast-check';
import { ENGINE_KINDS } from '../../../../../src/common/engine-kinds.ts';
import { circumstancesOf } from '../../../../../src/line/circumstances.ts';
import { gapsIn } from '../../../../../src/line/gaps.ts';
import { askedOf, type AskedParts } from '../../../../../src/cache/key.ts';
import { classify, leavesState } from '../../../../../src/xmla/request/classify.ts';
import { namedCatalogs, namedCubes } from '../../../../../src/xmla/request/named-objects.ts';
import { asksForOtherIdentity } from '../../../../../src/xmla/request/delegation.ts';
import { passingChange } from '../../../../../src/xmla/request/classify.ts';
import { readRequest } from '../../../../../src/xmla/request/read-request.ts';
import { sessionIdsInLong } from '../../../../../src/xmla/request/session-ids.ts';
import { sourcesOf } from '../../../../../src/xmla/request/named-objects.ts';
import { understandInTurn } from '../../../../../src/line/understand.ts';
import { AROUND, HOSTILE_BODIES, HOSTILE_PIECES } from '../../../../support/hostile-bodies.ts';
import { sizes, strided } from '../../../../support/sizes.ts';

/**
 * V8 counts how often each block of code is run (precise coverage), so that steps are counted and no time is taken. What
 * runs inside of a pattern or of a function of V8 is not counted.
 */

const TYPE = 'text/xml';
const SIZE = 16 * 1024;
/**
 * All readings together. Each of the three that judge a statement reads it anew here, in steps that a request takes once;
 * 99 were seen for unknown functions. What took longer than in proportion would be thousands.
 */
const STEPS_FOR_A_BYTE = 130;
/** What does not depend on the body, and the readers' first use of a table. */
const FIXED = 20_000;

const session = new Session();

beforeAll(async () => {
  session.connect();
  await session.post('Profiler.enable');
  await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: true });
  await stepsTaken();
});

afterAll(() => session.disconnect());

/** Blocks that were run since that was last asked. */
async function stepsTaken(): Promise<number> {
  const { result } = await session.post('Profiler.takePreciseCoverage');
  let steps = 0;
  for (const { url, functions } of result) {
    if (!url.includes('/src/')) continue;
    for (const { ranges } of functions) for (const { count } of ranges) steps += count;
  }
  return steps;
}

/** Every reading of a body, the one of long ones included. */
async function readAll(body: Buffer): Promise<void> {
  const reading = readRequest(body, TYPE);
  await sessionIdsInLong(body, TYPE, () => Promise.resolve());
  await asksForOtherIdentity(body, TYPE, reading, () => undefined);
  gapsIn(body);
  if (reading.kind !== 'understood') return;
  const { request } = reading;
  classify(request, { catalogsReread: false } as never);
  leavesState(request);
  passingChange(request);
  const sources = sourcesOf(request);
  namedCatalogs(request, sources);
  namedCubes(request, sources);
  askedOf({ request } as AskedParts);
}

async function stepsOf(body: Buffer): Promise<number> {
  await readAll(body);
  return stepsTaken();
}

/** Steps of one turn in the reading of a long body: a few for each unit of a slice. */
const STEPS_OF_A_TURN = 2_000_000;
const LONG = 256 * 1024;
const CIRCUMSTANCES = circumstancesOf({ 'content-type': TYPE }, {
  ...{ traits: ENGINE_KINDS.kylin, settings: { headers: [], delegation: 'refuse' } },
  ...{ volatile: [], engine: { id: '' }, addressee: { query: [] } },
} as never);

describe('no turn takes many steps of reading a long body', () => {
  test.each(strided(Object.entries(HOSTILE_BODIES), 2 * sizes.hostileStride))(
    '%s',
    async (_name, make) => {
      await stepsTaken();
      let most = 0;
      const turn = async () => {
        most = Math.max(most, await stepsTaken());
      };
      await understandInTurn(CIRCUMSTANCES, make(LONG), turn).catch(turn);
      await turn();
      expect(most).toBeLessThan(STEPS_OF_A_TURN);
    },
  );
});

describe('reading a body takes no more steps than its bytes allow', () => {
  test('steps are counted', async () => {
    const steps = await stepsOf(Buffer.from(AROUND.statement('[a]'.repeat(1_000))));
    expect(steps).toBeGreaterThan(3_000);
  });

  test.each(strided(Object.entries(HOSTILE_BODIES), sizes.hostileStride))(
    '%s',
    async (_name, make) => {
      for (const size of [SIZE, 4 * SIZE]) {
        const body = make(size);
        const steps = await stepsOf(body);
        expect(steps).toBeLessThan(FIXED + STEPS_FOR_A_BYTE * body.length);
      }
    },
  );

  test('whatever they are put together from', async () => {
    const piece = constantFrom(
      ...HOSTILE_PIECES,
      ...[
        '</a>',
        '</e>',
        '<e xmlns:a="urn:a">',
        '<a:e>',
        ' xmlns:b="urn:b"',
        '>',
        '/>',
        '"',
        '?>',
        '-->',
      ],
    );
    const repeated = tuple(array(piece, { minLength: 1, maxLength: 4 }), nat(400)).map(
      ([pieces, times]) => pieces.join('').repeat(times),
    );
    const place = constantFrom(...Object.values(AROUND), (text: string) => text);
    await assert(
      asyncProperty(place, array(repeated, { maxLength: 4 }), async (around, texts) => {
        const body = Buffer.from(around(texts.join('')));
        expect(await stepsOf(body)).toBeLessThan(FIXED + STEPS_FOR_A_BYTE * body.length);
      }),
      { numRuns: sizes.propertyRuns },
    );
  });
});
