import { describe, expect, test } from '@jest/globals';
import { isDeepStrictEqual } from 'node:util';
import type { Circumstances } from '../../../../src/line/circumstances.ts';
import { asksTheSame } from '../../../../src/line/gaps.ts';
import { createReadings } from '../../../../src/line/readings.ts';
import { understandInTurn, type UnderstoodRequest } from '../../../../src/line/understand.ts';
import { fuzzSeed, randomFrom } from '../../../support/mutate.ts';
import { sizes } from '../../../support/sizes.ts';
import { type Ask, bodyOf, changed, circumstancesFor, USUAL } from './random-asks.ts';

const ownTurn = () => undefined;

/** What is understood, or why it is refused. */
type Told = UnderstoodRequest | string;
const told = (reading: Promise<UnderstoodRequest>): Promise<Told> => reading.catch(String);

function isSame(given: Told, whole: Told): boolean {
  if (typeof given === 'string' || typeof whole === 'string') return given === whole;
  // In one session, by whatever id the body has.
  return (
    isDeepStrictEqual(given.session, whole.session) &&
    isDeepStrictEqual(given.sessionIds, whole.sessionIds) &&
    asksTheSame(given, whole)
  );
}

/** Asks again and again, with a few changes, of one table of readings. @returns what was not as the full reading */
async function askMany(
  seed: number,
  runs: number,
  seen: (circumstances: Circumstances) => Circumstances,
) {
  const random = randomFrom(seed);
  const readings = createReadings();
  const counts = { seed, runs, shared: 0, full: 0 };
  let ask = USUAL;
  let wrong: Ask | undefined;
  for (let run = 0; run < runs && wrong === undefined; run += 1) {
    ask = changed(random(8) === 0 ? USUAL : ask, random);
    const body = bodyOf(ask);
    const circumstances = circumstancesFor(ask);
    const asking = { body, circumstances: seen(circumstances), owner: 'alice', ownTurn };
    const reading = readings.read(asking);
    const given = await told(reading.then(({ asked }) => asked));
    if (typeof given !== 'string' && (await reading).recognised) counts.shared += 1;
    else counts.full += 1;
    if (!isSame(given, await told(understandInTurn(circumstances, body, ownTurn)))) wrong = ask;
  }
  return { counts, wrong };
}

test('what is shared is what the full reading says, whatever the requests have in common', async () => {
  const runs = sizes.recognisedMutations;
  const { counts, wrong } = await askMany(fuzzSeed(), runs, (circumstances) => circumstances);
  console.log(`shared readings: ${JSON.stringify(counts)}`);
  expect({ seed: counts.seed, wrong }).toEqual({ seed: counts.seed, wrong: undefined });
  expect(counts.shared).toBeGreaterThan(runs / 20);
  expect(counts.full).toBeGreaterThan(runs / 50);
});

describe('a reading that is shared without regard to', () => {
  /** Reads by all, and is named without a part. */
  const without = (part: string) => (circumstances: Circumstances) => {
    const { [part as keyof Circumstances]: _left, ...named } = circumstances;
    return { ...circumstances, toJSON: () => named };
  };
  test.each(Object.keys(circumstancesFor(USUAL)))('%s is found to be wrong', async (part) => {
    const seed = fuzzSeed();
    const { wrong } = await askMany(seed, 100_000, without(part));
    expect({ seed, isFound: wrong !== undefined }).toEqual({ seed, isFound: true });
  });
});
