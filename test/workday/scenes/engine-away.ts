import { connect, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { isStale } from '../history.ts';
import type { House } from '../house.ts';
import type { Outcome } from '../outcome.ts';
import { createCast } from '../plan.ts';
import { bySize, momentOf, paceOf, seconds, type Moments, type Scene } from '../scene.ts';
import { joinUsual } from './engine.ts';

interface Outage {
  readonly name: string;
  readonly title: string;
  readonly goes: (house: House) => Promise<unknown>;
  readonly comesBack: (house: House) => Promise<unknown>;
}

/** So many connections are not answered at once: the queue of the port is full. */
const UNANSWERED = 3;

/** Connections that fill the queue of a port which takes none of them. */
const held: Socket[] = [];

async function fillQueue(port: number): Promise<void> {
  for (let unanswered = 0; unanswered < UNANSWERED;) {
    const socket = connect(port, '127.0.0.1').on('error', () => {});
    held.push(socket);
    const { promise, resolve } = Promise.withResolvers<boolean>();
    socket.once('connect', () => resolve(true));
    if (!(await Promise.race([promise, delay(100, false)]))) unanswered += 1;
  }
}

const OUTAGES: readonly Outage[] = [
  {
    name: 'engine-away',
    title: 'the engine is away: its port refuses',
    goes: ({ engine }) => engine.call('leave'),
    comesBack: ({ engine }) => engine.call('comeBack'),
  },
  {
    name: 'engine-frozen',
    title: 'the engine stands still: it takes connections and says nothing',
    goes: ({ engine }) => engine.freeze(),
    comesBack: async ({ engine }) => engine.thaw(),
  },
  {
    name: 'engine-silent',
    title: 'no packet of the engine comes back',
    async goes({ engine, enginePort }) {
      await engine.freeze();
      await fillQueue(enginePort);
    },
    async comesBack({ engine }) {
      for (const socket of held.splice(0)) socket.destroy();
      engine.thaw();
    },
  },
];

/** Until each gateway has tried again, which it does once a second, and has heard the engine (ms). */
const TRYING = 5_000;
const AWAY = /^50[24]\b.*\b(?:engine-unreachable|engine-timeout|query-times-out)\b/;

/** People go on with what they have asked before, also past its ttl. Data that was loaded before is purged meanwhile. */
function engineAway({ name, title, goes, comesBack }: Outage): Scene {
  return {
    name,
    title,
    play(stage) {
      const { below } = stage;
      const pace = paceOf(stage);
      const [goesAt = 0, backAt = 0, until = 0] = bySize(
        stage,
        [4_000, 9_500, 13_000],
        [15_000, 75_000, 90_000],
      ).map((at) => Math.round(at * pace));
      const every = bySize(stage, 1_200, 4_000);
      const [timeout, ttl] = bySize(stage, [2, 3] as const, [5, 20] as const);
      const purgesAt = (goesAt + 3 * backAt) / 4;
      const cast = createCast();
      joinUsual(cast, stage, { count: 20, until, every, pivots: 2 });
      for (let number = 0; number < 4; number += 1) {
        const open = (at: number) =>
          ({ do: 'open', at, questions: [0, 1, 2], catalogLater: false }) as const;
        const at = goesAt + 500 + below((backAt - goesAt) / 2);
        // Some make something in their workbook, and some want to open one.
        const acts = number % 2 === 0 ? [open(0), { do: 'change', at } as const] : [open(at)];
        cast.join({ program: 'Excel', kind: 'generic', acts });
      }
      cast.joinLoadJob([{ do: 'load', at: goesAt - 1_500, purgesAt }]);
      return {
        cast,
        settings: {
          engine: { login: 'forward', timeout: seconds(timeout * pace) },
          cache: { ttl: seconds(ttl * pace), stale_if_error: '4h' },
        },
        events: [
          { at: goesAt, name: 'goes', work: goes },
          { at: backAt, name: 'comes back', work: comesBack },
        ],
        allows: (outcome, moments, wasAnswered) =>
          !wasAnswered(outcome) &&
          (isCutByIt(outcome, moments) ||
            (AWAY.test(outcome.words) && isWhileAway(outcome, moments, TRYING))),
        mayBeStale: (outcome, moments) => isWhileAway(outcome, moments, TRYING),
        misses: (outcomes) => (outcomes.some(isStale) ? [] : ['nothing was answered past its ttl']),
      };
    },
  };
}

const isWhileAway = ({ sent, answered }: Outcome, moments: Moments, longer: number): boolean =>
  answered > momentOf(moments, 'goes').began &&
  sent < momentOf(moments, 'comes back').ended + longer;

/** The engine went while it answered. */
const isCutByIt = ({ sent, answered }: Outcome, moments: Moments): boolean => {
  const { began, ended } = momentOf(moments, 'goes');
  return sent < ended && answered > began;
};

export const engineScenes: readonly Scene[] = OUTAGES.map(engineAway);
