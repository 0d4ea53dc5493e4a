import { describe, expect, test } from '@jest/globals';
import { createEpochs, type Epochs } from '../../../../../src/freshness/freshness.ts';
import type { EngineAnswer, Query } from '../../../../../src/cache/query.ts';
import { sharedEpochs } from '../fake-epoch-stores.ts';
import {
  checkpoint,
  engineAnswer,
  fakeTier,
  handClock,
  keyParts,
  queryOf,
  quiet,
  rowset,
  type HandClock,
} from '../../fakes.ts';
import { memoryStore, ORDER, replica, type Replica } from '../replica.ts';
import { sizes, strided } from '../../../../support/sizes.ts';

const LEASE = 1_000;

/** The points of a fill and of a purge at which they are held, in their order. */
const FILL_STEPS = [
  'epochs captured',
  'request sent',
  'head arrived',
  'half the body',
  'last byte',
  'before it is kept',
  'before it is written to tier 2',
  'written',
] as const;
const PURGE_STEPS = [
  'engine called',
  'renewal sent',
  'renewed, its reply not seen',
  'announced',
  'lease waited',
  'answered',
] as const;
type FillStep = (typeof FILL_STEPS)[number];
type PurgeStep = (typeof PURGE_STEPS)[number];

/** Which of the two comes to its point first, and which of them ends first. */
const ORDERS = (['fill', 'purge'] as const).flatMap((first) =>
  (['fill', 'purge'] as const).map((ends) => ({ first, ends })),
);

const HOUSES = [
  { name: 'a gateway that is alone', gateways: 1, other: false, messages: 'delivered' },
  ...([false, true] as const).flatMap((other) =>
    (['delivered', 'lost', 'late'] as const).map((messages) => ({
      name: `${other ? 'the other' : 'the same'} one of two gateways, its message ${messages}`,
      gateways: 2,
      other,
      messages,
    })),
  ),
] as const;
type HouseKind = (typeof HOUSES)[number];

const NEVER_ALONE = new Set<string>([
  'before it is written to tier 2',
  'announced',
  'lease waited',
]);

/** Somebody on the way, who is held at one point. */
function traveller<Step extends string>(held: Step) {
  const at = checkpoint();
  let armed = true;
  return {
    arrived: at.arrived,
    release: at.release,
    /** To be called at every point. Only the first that comes there is held. */
    async pass(step: Step) {
      if (step !== held || !armed) return;
      armed = false;
      await at.arrive();
    },
  };
}

interface House {
  readonly filling: Replica;
  readonly purging: Replica;
  readonly all: readonly Replica[];
  /** Asks in the name of the user; the engine answers with the data of the moment when the request was sent. */
  query(user: string): Query;
  /** From now on the next fill and the next purge are held at their points. */
  arm(
    fill: ReturnType<typeof traveller<FillStep>>,
    purge: ReturnType<typeof traveller<PurgeStep>>,
  ): void;
  /** Delivers what is late. */
  deliver(): void;
}

function build({ gateways, other, messages }: HouseKind): House {
  const clock = handClock();
  const shared = sharedEpochs();
  shared.messages = messages;
  const values = fakeTier();
  // The engine keeps old answers of its own, until it is told to clear them.
  let data = 'old';
  let atFill = async (_step: FillStep) => {};
  let atPurge = async (_step: PurgeStep) => {};
  shared.beforeRenewal = () => atPurge('renewal sent');
  shared.afterRenewal = () => atPurge('renewed, its reply not seen');
  values.beforeSet = () => atFill('before it is written to tier 2');
  const common = {
    clock,
    // The last thing that happens before an answer is kept; nothing can be awaited there.
    random() {
      void atFill('before it is kept');
      return 0.5;
    },
    async clearEngines() {
      await atPurge('engine called');
      data = 'new';
      return [];
    },
    async purgeSleep(milliseconds: number) {
      await atPurge('announced');
      clock.advance(milliseconds);
      await atPurge('lease waited');
    },
  };
  const one = () =>
    gateways === 1
      ? replica({ ...common, epochs: aloneEpochs(clock, shared) })
      : replica({ ...common, values, store: shared.replica(LEASE), lease: LEASE });
  const all = Array.from({ length: gateways }, one);
  const [filling, last] = [all[0], all.at(-1)] as [Replica, Replica];

  async function ask(): Promise<EngineAnswer> {
    await atFill('epochs captured');
    const began = { now: clock.now(), wall: clock.wall() };
    const body = rowset(data);
    await atFill('request sent');
    const answer = engineAnswer(body, clock, {
      began,
      half: () => atFill('half the body'),
      lastByte: () => atFill('last byte'),
    });
    await atFill('head arrived');
    return answer;
  }

  return {
    filling,
    purging: other ? last : filling,
    all,
    query: (user) => ({ ...queryOf(ask), parts: keyParts({ identity: `user:${user}` }) }),
    arm(fill, purge) {
      atFill = fill.pass;
      atPurge = purge.pass;
    },
    deliver: shared.deliver,
  };
}

/** Epochs of a gateway that is alone, whose renewal is held like that of a shared store. */
function aloneEpochs(clock: HandClock, shared: ReturnType<typeof sharedEpochs>): Epochs {
  const store = memoryStore(clock);
  return createEpochs({
    clock,
    lease: () => Infinity,
    store: {
      ...store,
      async renew(scopes) {
        await shared.beforeRenewal();
        const renewed = await store.renew(scopes);
        await shared.afterRenewal();
        return renewed;
      },
    },
  });
}

/**
 * Three users ask: `alice`, whose fill is held; `bob`, while both are held; `carol`, before the purge. Resolves to
 * what they were answered after the purge was.
 */
async function meet(
  kind: HouseKind,
  held: { fill: FillStep; purge: PurgeStep },
  { first, ends }: (typeof ORDERS)[number],
): Promise<readonly string[]> {
  const house = build(kind);
  const { filling, purging, all } = house;
  for (const one of all) await one.answer(house.query('carol'));
  const [fillHeld, purgeHeld] = [traveller(held.fill), traveller(held.purge)];
  house.arm(fillHeld, purgeHeld);

  let fill: Promise<unknown> | undefined;
  let purge: Promise<unknown> | undefined;
  const toItsPoint = {
    async fill() {
      fill = filling.answer(house.query('alice'));
      await (held.fill === 'written' ? fill : fillHeld.arrived);
    },
    async purge() {
      purge = purging.purge({ project: 'a' }, ORDER);
      await (held.purge === 'answered' ? purge : purgeHeld.arrived);
    },
  };
  await toItsPoint[first]();
  await toItsPoint[first === 'fill' ? 'purge' : 'fill']();
  const between = all.map((one) => one.answer(house.query('bob')));
  await quiet();

  const answers: Promise<{ readonly body: string }>[] = [];
  const askAll = () => {
    for (const one of all) {
      for (const user of ['alice', 'bob', 'carol']) answers.push(one.answer(house.query(user)));
    }
  };
  if (ends === 'fill') {
    fillHeld.release();
    await fill;
    await quiet();
    purgeHeld.release();
    await purge;
  } else {
    purgeHeld.release();
    await purge;
    // Some of these may wait for the fill, as the promise allows.
    askAll();
    await quiet();
    fillHeld.release();
    await fill;
  }
  await Promise.all(between);
  askAll();
  await Promise.all(answers);
  house.deliver();
  askAll();
  return (await Promise.all(answers)).map(({ body }) => body);
}

describe('after a purge was answered nobody is given what was there before it', () => {
  const cases = HOUSES.flatMap((kind) =>
    FILL_STEPS.flatMap((fill) => PURGE_STEPS.map((purge) => ({ kind, fill, purge }))),
  ).filter(
    ({ kind, fill, purge }) =>
      kind.gateways > 1 || !(NEVER_ALONE.has(fill) || NEVER_ALONE.has(purge)),
  );
  test.each(strided(cases, sizes.pairStride))(
    'fill: $fill; purge: $purge; by $kind.name',
    async ({ kind, ...held }) => {
      for (const order of ORDERS) {
        const answers = await meet(kind, held, order);
        expect({ order, answers: new Set(answers) }).toEqual({
          order,
          answers: new Set([`${rowset('new')}`]),
        });
      }
    },
  );
});
