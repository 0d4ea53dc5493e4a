import { workbook } from '../habits.ts';
import type { House } from '../house.ts';
import type { Outcome } from '../outcome.ts';
import { createCast } from '../plan.ts';
import { bySize, momentOf, type Moments, type Scene } from '../scene.ts';
import { askRedis } from '../../support/redis-server.ts';

interface Outage {
  readonly name: string;
  readonly title: string;
  readonly goes: (house: House) => Promise<unknown>;
  readonly comesBack: (house: House) => Promise<unknown>;
}

const setRedis = async ({ redis }: House, ...settings: readonly string[]) => {
  for (const one of settings) await askRedis(redis.port, `CONFIG SET ${one}`);
};

const OUTAGES: readonly Outage[] = [
  {
    name: 'redis-ended',
    title: 'Redis ends, and comes back empty',
    goes: ({ redis }) => redis.stop(),
    comesBack: ({ redis }) => redis.restart(),
  },
  {
    name: 'redis-hung',
    title: 'Redis hangs, and comes back with its data',
    goes: ({ redis }) => redis.pause(),
    comesBack: async ({ redis }) => redis.resume(),
  },
  {
    name: 'redis-full',
    title: 'Redis is full and evicts nothing',
    goes: (house) => setRedis(house, 'maxmemory-policy noeviction', 'maxmemory 1'),
    comesBack: (house) => setRedis(house, 'maxmemory 512mb', 'maxmemory-policy volatile-lru'),
  },
];

/** Those that keep what a session was begun with: there a first catalog changes it. */
const KEEPING = ['ssas', 'generic', 'emondrian'] as const;
/** Gateways need a moment to find it again (ms). */
const FINDING = 10_000;

/** Workbooks are open, closed and changed when it goes, opened and changed while it is away, and used afterwards. */
function redisAway({ name, title, goes, comesBack }: Outage): Scene {
  return {
    name,
    title,
    play(stage) {
      const { below } = stage;
      const [goesAt, backAt, until, every] = bySize(
        stage,
        [4_000, 10_000, 16_000, 1_500] as const,
        [10_000, 70_000, 95_000, 4_000] as const,
      );
      const cast = createCast();
      for (let number = 0; number < 24; number += 1) {
        const meanwhile = goesAt + 500 + below((backAt - goesAt) / 2);
        const later = meanwhile + 1_000 + below((backAt - goesAt) / 4);
        const early = { from: below(1_000), every, metadata: 8 };
        const acts = [
          // Open all the time; some make something in it while Redis is away.
          workbook(stage, { ...early, until, ...(number % 2 === 0 && { changes: meanwhile }) }),
          // Open meanwhile and afterwards.
          workbook(stage, { ...early, from: meanwhile, until }),
          // Closed when it goes, opened again meanwhile, and something is made in it.
          [
            ...workbook(stage, { ...early, until: goesAt - 500 }),
            ...workbook(stage, { ...early, from: meanwhile, until, changes: later }),
          ],
        ];
        const kind = KEEPING[number % KEEPING.length] ?? 'generic';
        const program = number % 8 === 7 ? 'ADOMD.NET' : 'Excel';
        cast.join({ program, kind, acts: acts[Math.floor(number / 3) % acts.length] ?? [] });
      }
      return {
        cast,
        events: [
          { at: goesAt, name: 'goes', work: goes },
          { at: backAt, name: 'comes back', work: comesBack },
        ],
        allows: changesEarlierSession,
      };
    },
  };
}

function changesEarlierSession(outcome: Outcome, moments: Moments): boolean {
  const { deed, sessionBegan = Infinity, sent, answered } = outcome;
  const [went, back] = [momentOf(moments, 'goes'), momentOf(moments, 'comes back')];
  return (
    (deed === 'change' || deed === 'first-catalog') &&
    sessionBegan < went.ended &&
    answered > went.began &&
    sent < back.ended + FINDING &&
    outcome.words.includes('session-unavailable')
  );
}

export const redisScenes: readonly Scene[] = OUTAGES.map(redisAway);
