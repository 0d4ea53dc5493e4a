import { datasetOf, wholeAnswer } from '../answers.ts';
import { expectHit, requestTo, type LoadShape } from '../contest.ts';
import { basic, TEAM } from '../credentials.ts';
import type { House, Subject } from '../house.ts';
import type { LoadRequest } from '../load/wrk.ts';
import { template } from '../questions.ts';

interface SizeClass {
  readonly sizes: readonly number[];
  /** Of each size, of each user. */
  readonly questions: number;
  /** Of a hundred requests. */
  readonly weight: number;
}

/** As of pivot tables: most answers are short, few are very long. */
const CLASSES: readonly SizeClass[] = [
  { sizes: [2_048, 2_560, 3_072, 3_584, 4_096, 4_608, 5_120], questions: 4, weight: 94 },
  { sizes: [100_000, 200_000, 400_000], questions: 4, weight: 5.6 },
  { sizes: [4_194_304], questions: 1, weight: 0.4 },
];

/** Of all requests. */
const MISSES = 0.1;
const DECK = 20_000;

const teamOf = ({ settings }: House) => (settings.quick ? TEAM.slice(0, 3) : TEAM);

/** That each question of the mixed load that comes again is a hit. */
export async function expectMixed(house: House, gateway: Subject): Promise<void> {
  for (const user of teamOf(house)) {
    const his = { ...gateway, headers: basic(user) };
    for (const { sizes, questions } of CLASSES) {
      for (const size of sizes) {
        const expected = wholeAnswer(datasetOf(size));
        for (let at = 0; at < questions; at++) {
          await expectHit(his, template({ size, name: `Q${at}` }), expected);
        }
      }
    }
  }
}

export function mixedLoadOf(house: House): (subject: Subject, round: number) => LoadShape {
  return (subject, round) => ({
    connections: 32,
    ...deckFor(subject, teamOf(house)),
    numbers: { from: (round + 1) * 1_000_000, count: 1_000_000 },
  });
}

/** The requests and their order, the same for all servers and in all rounds. */
function deckFor(subject: Subject, team: readonly string[]): Pick<LoadShape, 'requests' | 'deck'> {
  const requests: LoadRequest[] = [];
  const deck: number[] = [];
  /** Where the requests of a size class begin, and how many there are: those that hit, and those that miss. */
  const places = CLASSES.map(({ sizes, questions, weight }) => {
    const known = requests.length;
    for (const user of team) {
      for (const size of sizes) {
        for (let at = 0; at < questions; at++) {
          requests.push(requestTo(subject, template({ size, name: `Q${at}` }), basic(user)));
        }
      }
    }
    const fresh = requests.length;
    for (const user of team) {
      for (const size of sizes) {
        requests.push(requestTo(subject, template({ size, name: '@NUMBER@' }), basic(user)));
      }
    }
    return { weight, known, fresh, end: requests.length };
  });
  const random = repeatable();
  for (let at = 0; at < DECK; at++) {
    let left = random() * 100;
    const place = places.find(({ weight }) => (left -= weight) < 0) ?? places[0];
    if (place === undefined) break;
    const [from, to] = random() < MISSES ? [place.fresh, place.end] : [place.known, place.fresh];
    deck.push(from + Math.floor(random() * (to - from)));
  }
  return { requests, deck };
}

/** Numbers from 0 to 1, the same in each run (mulberry32). */
function repeatable(): () => number {
  let state = 20_260_101;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}
