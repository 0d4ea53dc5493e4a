import { describe, expect, test } from '@jest/globals';
import { makeGzip } from '../../../../src/cache/stored-answer.ts';
import { engineAnswer, handClock, queryOf, rowset } from '../fakes.ts';
import { fakeEngine, replica } from '../purge/replica.ts';

describe('a compressed variant', () => {
  test('that one client made is there for the next one, as long as the answer is', async () => {
    const clock = handClock();
    const { answer, memory } = replica({ clock });
    const engine = fakeEngine((call) => engineAnswer(rowset(`answer ${call}`), clock));
    await answer(queryOf(engine.ask));
    const first = await answer(queryOf(engine.ask));
    expect(first.gzip?.variant).toBeUndefined();
    const variant = await makeGzip({ body: Buffer.alloc(5_000), session: undefined });
    if (variant === undefined) throw new Error('it does not pay');
    first.gzip?.keep(variant);
    expect((await answer(queryOf(engine.ask))).gzip?.variant).toBe(variant);
    memory.clear();
    await answer(queryOf(engine.ask));
    expect((await answer(queryOf(engine.ask))).gzip?.variant).toBeUndefined();
  });
});
