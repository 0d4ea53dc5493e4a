import { describe, expect, test } from '@jest/globals';
import type { EngineAnswer } from '../../../../../src/cache/query.ts';
import { sharedEpochs } from '../fake-epoch-stores.ts';
import { told } from '../../fake-client.ts';
import {
  checkpoint,
  engineAnswer,
  fakeTier,
  handClock,
  queryOf,
  rowset,
  type Checkpoint,
} from '../../fakes.ts';
import { ORDER, replica, type Replica } from '../replica.ts';

const LEASE = 1_000;

/** The points of a fill at which a purge comes, in their order. */
const STEPS = [
  'epochs captured',
  'request sent',
  'head arrived',
  'half the body',
  'last byte',
  'before it is kept',
  'before it is written to tier 2',
] as const;
type Step = (typeof STEPS)[number];

const PURGES = [
  { name: 'its project', stale: { project: 'a' }, concerned: true },
  { name: 'its project, spelt otherwise', stale: { project: ' A' }, concerned: true },
  { name: 'everything', stale: 'everything', concerned: true },
  { name: 'another project', stale: { project: 'b' }, concerned: false },
] as const;

/** What stands between the replica that fills and the one that purges. */
const HOUSES = [
  'a gateway that is alone',
  'the same one of two gateways',
  'the other one of two gateways',
  'the other one of two gateways, its message lost',
] as const;

interface House {
  readonly filling: Replica;
  readonly purging: Replica;
  /** All that answer. */
  readonly all: readonly Replica[];
  /** Whether there is a tier 2. */
  readonly shared: boolean;
  /** Set: the next one that comes to the held step is held there. */
  armed: boolean;
  /** The data that the engine would answer with now. */
  data: string;
  /** Asks the engine, which answers with the data of the moment when the request was sent. */
  ask(): Promise<EngineAnswer>;
}

function build(house: (typeof HOUSES)[number], held: Step, at: Checkpoint): House {
  const clock = handClock();
  const shared = sharedEpochs();
  shared.messages = house.endsWith('lost') ? 'lost' : 'delivered';
  const values = fakeTier();
  const pass = async (step: Step) => {
    if (step !== held || !built.armed) return;
    built.armed = false;
    await at.arrive();
  };
  values.beforeSet = () => pass('before it is written to tier 2');
  // The last thing that happens before an answer is kept; nothing can be awaited there.
  const random = () => {
    void pass('before it is kept');
    return 0.5;
  };
  const alone = house === HOUSES[0];
  const one = () =>
    alone
      ? replica({ clock, random })
      : replica({ clock, random, values, store: shared.replica(LEASE), lease: LEASE });
  const [first, second] = [one(), one()];
  const purging = house.startsWith('the other') ? second : first;
  const built: House = {
    filling: first,
    purging,
    all: alone ? [first] : [first, second],
    shared: !alone,
    armed: false,
    data: 'old',
    async ask() {
      await pass('epochs captured');
      const began = { now: clock.now(), wall: clock.wall() };
      const body = rowset(built.data);
      await pass('request sent');
      const answer = engineAnswer(body, clock, {
        began,
        half: () => pass('half the body'),
        lastByte: () => pass('last byte'),
      });
      await pass('head arrived');
      return answer;
    },
  };
  return built;
}

const cases = HOUSES.flatMap((house) =>
  STEPS.filter((step) => house !== HOUSES[0] || step !== 'before it is written to tier 2').flatMap(
    (step) => PURGES.map((purge) => ({ house, step, purge })),
  ),
);

describe('a purge that comes in the middle of a fill', () => {
  test.each(cases)(
    '($step) of $purge.name, by $house',
    async ({ house, step, purge: { stale, concerned } }) => {
      const at = checkpoint();
      const one = build(house, step, at);
      const query = () => queryOf(() => one.ask());
      // What stood there before the fill must not come back either.
      for (const other of one.all) await other.answer(queryOf(() => one.ask(), { project: 'c' }));

      one.armed = true;
      const fill = one.filling.answer(query());
      await at.arrived;
      one.data = 'new';
      const outcome = await one.purging.purge(stale, ORDER);
      expect(outcome.ok).toBe(true);

      // Before the fill has ended …
      const early = await Promise.all(
        concerned ? one.all.map((other) => other.answer(query())) : [],
      );
      at.release();
      expect((await fill).ended).toBe(true);
      // … and after it.
      const late = [];
      for (const other of one.all) late.push(await other.answer(query()));

      const expected = concerned || step === 'epochs captured' ? 'new' : 'old';
      for (const { body } of [...early, ...late]) expect(body).toBe(`${rowset(expected)}`);
      // A purge of another project costs this one nothing.
      if (!concerned) {
        expect(late.map(told)).toEqual(one.shared ? ['hit:memory', 'hit:redis'] : ['hit:memory']);
      }
    },
  );
});

describe('a purge of one project', () => {
  test.each(HOUSES)('leaves what is stored of another, by %s', async (house) => {
    const one = build(house, 'request sent', checkpoint());
    const of = (project: string) => queryOf(() => one.ask(), { project });
    await one.filling.answer(of('a'));
    await one.filling.answer(of('b'));
    one.data = 'new';
    await one.purging.purge({ project: 'a' }, ORDER);
    const a = await one.filling.answer(of('a'));
    const b = await one.filling.answer(of('b'));
    expect([a.body, told(a)]).toEqual([`${rowset('new')}`, 'miss']);
    expect([b.body, told(b)]).toEqual([`${rowset('old')}`, 'hit:memory']);
  });
});

describe('a request that came before the purge', () => {
  test('and waits for a fill of before is given its answer; one that comes after is not', async () => {
    const at = checkpoint();
    const one = build(HOUSES[0], 'request sent', at);
    const query = () => queryOf(() => one.ask());
    one.armed = true;
    const leads = one.filling.answer(query());
    const joined = one.filling.answer(query());
    await at.arrived;
    one.data = 'new';
    await one.purging.purge({ project: 'a' }, ORDER);
    const after = await one.filling.answer(query());
    at.release();
    expect((await leads).body).toBe(`${rowset('old')}`);
    expect(told(await joined)).toBe('hit:coalesced');
    expect([told(after), after.body]).toEqual(['miss', `${rowset('new')}`]);
  });
});
