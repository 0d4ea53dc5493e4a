import { describe, expect, test } from '@jest/globals';
import { rowsetAnswer } from '../../../support/answers.ts';
import { fakeClient, told, type FakeClient } from '../fake-client.ts';
import { engineAnswer, handClock, queryOf, quiet, rowset, sessionOf } from '../fakes.ts';
import { fakeEngine, ORDER, replica, type Replica } from '../purge/replica.ts';

const LONG = '0123456789'.repeat(40_000);

/**
 * A query with a long answer, and what happens in the very moment in which its client has the last byte: the answer is
 * not inspected to its end by then.
 */
async function long(
  body: (call: number) => Buffer,
  atEnd: (one: Replica, again: () => Promise<FakeClient>, leads: FakeClient) => unknown,
  query: Parameters<typeof queryOf>[1] = {},
) {
  const clock = handClock();
  const one = replica({ clock });
  const engine = fakeEngine((call) => engineAnswer(body(call), clock));
  const again = () => one.answer(queryOf(engine.ask, query));
  const client = fakeClient();
  const asked = one.answer(queryOf(engine.ask, query), {
    ...client,
    end(length, last) {
      client.end(length, last);
      atEnd(one, again, client);
    },
  });
  await asked;
  await quiet();
  return { one, engine, again, client };
}

describe('a long answer', () => {
  test('reaches its client before it is inspected, and is stored then', async () => {
    let stored: boolean | undefined;
    const { one, client, again, engine } = await long(
      () => rowset(LONG),
      ({ events }) => (stored = events.some(({ type }) => type === 'stored')),
    );
    expect([stored, client.body === `${rowset(LONG)}`, told(client)]).toEqual([
      false,
      true,
      'miss',
    ]);
    expect(one.events.some(({ type }) => type === 'stored')).toBe(true);
    expect([told(await again()), engine.asked]).toEqual(['hit:memory', 1]);
  });

  test('answers whoever asks again while it is inspected; the engine is asked once', async () => {
    let second: Promise<FakeClient> | undefined;
    const { engine } = await long(
      () => rowset(LONG),
      (_one, again) => (second = again()),
    );
    const found = await second;
    expect(found && [told(found), found.body === `${rowset(LONG)}`]).toEqual([
      'hit:coalesced',
      true,
    ]);
    expect(engine.asked).toBe(1);
  });

  test.each([
    [
      'tells an error in its last row',
      () => Buffer.from(rowsetAnswer({ names: [LONG, '#ERR: no such member'] })),
      'error-cell',
    ],
    ['is cut off at its end', () => rowset(LONG).subarray(0, -20), 'not-well-formed'],
  ])(
    'that %s is given to nobody else, be it asked for while it is inspected or after',
    async (_what, body, reason) => {
      let second: Promise<FakeClient> | undefined;
      const { engine, again, one } = await long(
        (call) => (call === 1 ? body() : rowset(`good ${call}`)),
        (_one, ask) => (second = ask()),
      );
      expect((await second)?.body).toContain('good 2');
      expect((await again()).body).toContain('good 2');
      expect(engine.asked).toBe(2);
      const reasons = one.events.flatMap((event) =>
        event.type === 'not-stored' ? event.reason : [],
      );
      expect(reasons).toEqual([reason]);
    },
  );

  test('is not given to anybody who asks after a purge that came while it was inspected', async () => {
    let purged: Promise<unknown> | undefined;
    let second: Promise<FakeClient> | undefined;
    const { engine, again } = await long(
      (call) => rowset(`${LONG} ${call}`),
      (one, ask) => {
        purged ??= one.purge('everything', ORDER).then(() => (second = ask()));
      },
    );
    await purged;
    expect((await second)?.body).toContain(`${LONG} 2`);
    expect((await again()).body).toContain(`${LONG} 2`);
    expect(engine.asked).toBe(2);
  });

  test('that was asked for afresh takes the place of the stored one before its client has it', async () => {
    const clock = handClock();
    const one = replica({ clock });
    const engine = fakeEngine((call) => engineAnswer(rowset(`${LONG} ${call}`), clock));
    const query = (fresh: boolean) => queryOf(engine.ask, { fresh });
    await one.answer(query(false));
    const client = fakeClient();
    let next: Promise<FakeClient> | undefined;
    await one.answer(query(true), {
      ...client,
      end(length, last) {
        client.end(length, last);
        next = one.answer(query(false));
      },
    });
    const found = await next;
    expect(found && [told(found), found.body.includes(`${LONG} 2`)]).toEqual(['hit:memory', true]);
  });

  test('of a session that changed while it was inspected is not stored', async () => {
    let clean = true;
    const { one, again, engine } = await long(
      (call) => rowset(`${LONG} ${call}`),
      () => (clean = false),
      { session: sessionOf('one', () => clean) },
    );
    expect(one.events).toContainEqual(
      expect.objectContaining({ type: 'not-stored', reason: 'session-changed' }),
    );
    clean = true;
    expect((await again()).body).toContain(`${LONG} 2`);
    expect(engine.asked).toBe(2);
  });

  test('gives its room back when it was inspected, stored or not', async () => {
    for (const body of [rowset(LONG), rowset(LONG).subarray(0, -20)]) {
      const { one } = await long(
        () => body,
        () => {},
      );
      one.memory.clear();
      expect(Object.values(one.account.usage().bytes)).toEqual([0, 0, 0, 0]);
    }
  });
});
