import { describe, expect, test } from '@jest/globals';
import { faultAnswer } from '../../../support/answers.ts';
import { fakeClient, sent, told } from '../fake-client.ts';
import {
  checkpoint,
  engineAnswer,
  handClock,
  queryOf,
  quiet,
  rowset,
  sessionElement,
  sessionOf,
} from '../fakes.ts';
import { fakeEngine, replica, sessionReplica } from '../purge/replica.ts';

describe('a session that the engine began by itself', () => {
  const began = () => {
    const ids: string[] = [];
    return { ids, began: async (id: string) => void ids.push(id) };
  };

  test('is told of, shown to the one who asked, and to nobody else', async () => {
    const { answer, engine, memory, values } = sessionReplica(sessionElement('implicit'));
    const { ids, began: tell } = began();
    const first = await answer(queryOf(engine.ask, { began: tell }));
    expect([told(first), first.body]).toEqual([
      'miss',
      `${rowset('answer 1', sessionElement('implicit'))}`,
    ]);
    expect(ids).toEqual(['implicit']);
    const second = await answer(queryOf(engine.ask, { began: tell }));
    expect([told(second), sent(second)]).toEqual(['hit:memory', `${rowset('answer 1')}`]);
    memory.clear();
    const third = await answer(queryOf(engine.ask, { began: tell }));
    expect([told(third), sent(third)]).toEqual(['hit:redis', `${rowset('answer 1')}`]);
    expect([ids, engine.asked, values.sets]).toEqual([['implicit'], 1, 1]);
  });

  test('is not shown to those who wait for the same answer', async () => {
    const clock = handClock();
    const one = replica({ clock });
    const held = checkpoint();
    const engine = fakeEngine(async () => {
      await held.arrive();
      return engineAnswer(rowset('x', sessionElement('implicit')), clock);
    });
    const leads = one.answer(queryOf(engine.ask));
    await held.arrived;
    const waits = one.answer(queryOf(engine.ask));
    await quiet();
    held.release();
    await leads;
    expect([told(await waits), sent(await waits)]).toEqual(['hit:coalesced', `${rowset('x')}`]);
  });

  test('is told of before the client has the element', async () => {
    const { answer, engine } = sessionReplica(sessionElement('implicit'), { headers: {} });
    const noting = checkpoint();
    const client = fakeClient();
    const answered = answer(queryOf(engine.ask, { began: noting.arrive }), client);
    await noting.arrived;
    await quiet();
    expect([client.body.includes('implicit'), client.ended]).toEqual([false, false]);
    noting.release();
    await answered;
    expect([client.body.includes('implicit'), client.ended]).toEqual([true, true]);
  });

  test.each([
    ['a fault', Buffer.from(faultAnswer({ header: sessionElement('implicit') })), {}],
    ['status 500', rowset('x', sessionElement('implicit')), { status: 500 }],
    ['too large', rowset('x'.repeat(3_000), sessionElement('implicit')), {}],
    ['not plain', rowset('x', sessionElement('implicit', ' mode="x"')), {}],
    [
      'named in the head of nothing',
      Buffer.alloc(0),
      { headers: { 'x-as-sessionid': 'implicit' } },
    ],
  ])('is told of once also where the answer is not kept (%s)', async (_what, body, head) => {
    const { answer, clock, memory, values } = sessionReplica('', { maxEntry: 3_000 });
    const { ids, began: tell } = began();
    const engine = fakeEngine(() => engineAnswer(body, clock, head));
    const client = await answer(queryOf(engine.ask, { began: tell }));
    expect([client.outcome?.kind, client.body]).toEqual(['miss', `${body}`]);
    expect(client.outcome?.detail).toBeDefined();
    expect(ids).toEqual(['implicit']);
    expect([memory.usage().entries, values.sets]).toEqual([0, 0]);
  });

  test('is told of for head and body when they name two', async () => {
    const { answer, engine } = sessionReplica(sessionElement('one'), {
      headers: { 'x-as-sessionid': 'two' },
    });
    const { ids, began: tell } = began();
    expect(told(await answer(queryOf(engine.ask, { began: tell })))).toBe('miss');
    expect(ids).toEqual(['two', 'one']);
  });

  test('is none where the request had a session already', async () => {
    const { answer, engine } = sessionReplica(sessionElement('one'));
    const { ids, began: tell } = began();
    await answer(queryOf(engine.ask, { session: sessionOf('one'), began: tell }));
    expect(ids).toEqual([]);
  });
});
