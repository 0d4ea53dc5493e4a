import { describe, expect, test } from '@jest/globals';
import { sharedEpochs } from '../purge/fake-epoch-stores.ts';
import { fakeClient, sent, told } from '../fake-client.ts';
import {
  checkpoint,
  engineAnswer,
  fakeTier,
  handClock,
  queryOf,
  quiet,
  rowset,
  sessionElement,
  sessionOf,
} from '../fakes.ts';
import { fakeEngine, replica, sessionReplica } from '../purge/replica.ts';

const LEASE = 1_000;

describe('an answer that was asked for in a session', () => {
  test('is sent to the other sessions of its profile with their own ids, from every tier', async () => {
    const { answer, engine, memory, values } = sessionReplica(sessionElement('one'));
    const first = await answer(queryOf(engine.ask, { session: sessionOf('one') }));
    expect([told(first), first.body]).toEqual([
      'miss',
      `${rowset('answer 1', sessionElement('one'))}`,
    ]);
    const second = await answer(queryOf(engine.ask, { session: sessionOf('two & "more"') }));
    expect([told(second), sent(second)]).toEqual([
      'hit:memory',
      `${rowset('answer 1', sessionElement('two &amp; &quot;more&quot;'))}`,
    ]);
    expect(second.body).not.toContain('one"');
    memory.clear();
    const third = await answer(queryOf(engine.ask, { session: sessionOf('three') }));
    expect([told(third), sent(third)]).toEqual([
      'hit:redis',
      `${rowset('answer 1', sessionElement('three'))}`,
    ]);
    for (const value of values.values.values()) expect(value.includes('"one"')).toBe(false);
    expect(engine.asked).toBe(1);
  });

  test('reaches those who wait for it with their own ids', async () => {
    const clock = handClock();
    const one = replica({ clock });
    const held = checkpoint();
    const engine = fakeEngine(async () => {
      await held.arrive();
      return engineAnswer(rowset('x', sessionElement('one')), clock);
    });
    const leads = one.answer(queryOf(engine.ask, { session: sessionOf('one') }));
    await held.arrived;
    const waits = one.answer(queryOf(engine.ask, { session: sessionOf('two') }));
    await quiet();
    held.release();
    expect((await leads).body).toContain('SessionId="one"');
    expect([told(await waits), sent(await waits)]).toEqual([
      'hit:coalesced',
      `${rowset('x', sessionElement('two'))}`,
    ]);
  });

  test('never meets those without a session', async () => {
    const { answer, engine } = sessionReplica('');
    await answer(queryOf(engine.ask, { session: sessionOf('one') }));
    expect(told(await answer(queryOf(engine.ask)))).toBe('miss');
    expect(engine.asked).toBe(2);
  });

  test('that shows none is kept as it is', async () => {
    const { answer, engine } = sessionReplica('');
    await answer(queryOf(engine.ask, { session: sessionOf('one') }));
    const second = await answer(queryOf(engine.ask, { session: sessionOf('two') }));
    expect([second.answer?.session, sent(second)]).toEqual([undefined, `${rowset('answer 1')}`]);
  });

  test.each([
    ['names the caller’s', 'one', true],
    ['is not there', undefined, false],
  ])('whose header X-AS-SessionID %s is kept, and that is noted', async (_what, id, noted) => {
    const headers = id === undefined ? {} : { 'x-as-sessionid': id };
    const { answer, engine } = sessionReplica('', { headers });
    await answer(queryOf(engine.ask, { session: sessionOf('one') }));
    const second = await answer(queryOf(engine.ask, { session: sessionOf('two') }));
    expect([told(second), second.answer?.sessionHeader]).toEqual(['hit:memory', noted]);
  });

  test.each([
    ['shows another session', sessionElement('other'), {}],
    ['says more of the session than its id', sessionElement('one', ' mode="x"'), {}],
    ['has another session in its head', '', { 'x-as-sessionid': 'other' }],
    ['has two sessions in its head', '', { 'x-as-sessionid': 'one, other' }],
    ['has an empty one in its head', '', { 'x-as-sessionid': '' }],
  ])('and %s is kept nowhere, and sent on untouched', async (_what, header, headers) => {
    const { answer, engine, memory, values } = sessionReplica(header, { headers });
    for (const call of [1, 2]) {
      const client = await answer(queryOf(engine.ask, { session: sessionOf('one') }));
      expect([told(client), client.body]).toEqual([
        'miss:session-in-answer',
        `${rowset(`answer ${call}`, header)}`,
      ]);
    }
    expect([memory.usage().entries, values.sets]).toEqual([0, 0]);
  });
});

describe('a session that changed while its answer was made', () => {
  test.each([
    ['is known at once', () => false],
    ['has to be asked for', () => Promise.resolve(false)],
  ])('(which %s) keeps it from everybody but the one who asked', async (_what, confirm) => {
    const clock = handClock();
    const values = fakeTier();
    const one = replica({ clock, values, store: sharedEpochs().replica(LEASE), lease: LEASE });
    const held = checkpoint();
    const engine = fakeEngine(async (call) => {
      if (call === 1) await held.arrive();
      return engineAnswer(rowset(`answer ${call}`, sessionElement('one')), clock);
    });
    const leads = one.answer(queryOf(engine.ask, { session: sessionOf('one', confirm) }));
    await held.arrived;
    const own = fakeEngine(() => engineAnswer(rowset('own', sessionElement('two')), clock));
    const waits = one.answer(queryOf(own.ask, { session: sessionOf('two') }));
    await quiet();
    held.release();
    expect([told(await leads), (await leads).body, (await leads).ended]).toEqual([
      'miss:session-changed',
      `${rowset('answer 1', sessionElement('one'))}`,
      true,
    ]);
    expect([told(await waits), (await waits).body]).toEqual([
      'miss',
      `${rowset('own', sessionElement('two'))}`,
    ]);
    // Of the two fills one was kept.
    expect([one.memory.usage().entries, values.sets]).toEqual([1, 1]);
    expect(one.events).toContainEqual({
      type: 'not-stored',
      project: 'a',
      reason: 'session-changed',
    });
  });

  test('is looked at after the last byte, and nothing is kept before that is known', async () => {
    const clock = handClock();
    const one = replica({ clock });
    const [lastByte, asked] = [checkpoint(), checkpoint()];
    const seen: string[] = [];
    const engine = fakeEngine(() =>
      engineAnswer(rowset('x'), clock, {
        lastByte: async () => {
          await lastByte.arrive();
          seen.push('last byte');
        },
      }),
    );
    const confirm = async () => {
      seen.push('asked');
      await asked.arrive();
      return true;
    };
    const leads = one.answer(queryOf(engine.ask, { session: sessionOf('one', confirm) }));
    await lastByte.arrived;
    await quiet();
    expect(seen).toEqual([]);
    lastByte.release();
    await asked.arrived;
    const other = fakeClient();
    const waits = one.answer(queryOf(engine.ask, { session: sessionOf('two') }), other);
    await quiet();
    expect([seen, one.memory.usage().entries, told(other)]).toEqual([
      ['last byte', 'asked'],
      0,
      'nothing',
    ]);
    asked.release();
    await Promise.all([leads, waits]);
    expect([told(other), one.memory.usage().entries]).toEqual(['hit:coalesced', 1]);
  });

  test('shares nothing while the epochs are unknown either', async () => {
    const clock = handClock();
    const shared = sharedEpochs();
    const one = replica({ clock, store: shared.replica(LEASE), lease: LEASE });
    shared.reachable = false;
    const held = checkpoint();
    const engine = fakeEngine(async (call) => {
      if (call === 1) await held.arrive();
      return engineAnswer(rowset(`answer ${call}`), clock);
    });
    const leads = one.answer(queryOf(engine.ask, { session: sessionOf('one', () => false) }));
    await held.arrived;
    const waits = one.answer(queryOf(engine.ask, { session: sessionOf('two') }));
    await quiet();
    held.release();
    expect((await leads).body).toBe(`${rowset('answer 1')}`);
    expect((await waits).body).toBe(`${rowset('answer 2')}`);
  });

  test('does not keep the next ones from waiting for each other', async () => {
    const { answer, engine, clock } = sessionReplica('');
    await answer(queryOf(engine.ask, { session: sessionOf('one', () => false) }));
    const held = checkpoint();
    const slow = fakeEngine(async () => {
      await held.arrive();
      return engineAnswer(rowset('x'), clock);
    });
    const both = ['two', 'three'].map((id) =>
      answer(queryOf(slow.ask, { session: sessionOf(id) })),
    );
    await held.arrived;
    await quiet();
    held.release();
    await Promise.all(both);
    expect(slow.asked).toBe(1);
  });
});
