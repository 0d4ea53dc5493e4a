import { describe, expect, test } from '@jest/globals';
import { until } from '../../../support/http-client.ts';
import type { FakeClient } from '../fake-client.ts';
import { engineAnswer, handClock, queryOf, rowset } from '../fakes.ts';
import { fakeEngine, replica } from '../purge/replica.ts';

describe('a compressed variant', () => {
  test('that one client made is there for the next one, as long as the answer is', async () => {
    const clock = handClock();
    const { answer, memory } = replica({ clock });
    const engine = fakeEngine((call) => engineAnswer(rowset(`answer ${call} `.repeat(500)), clock));
    await answer(queryOf(engine.ask));
    const first = await answer(queryOf(engine.ask));
    const isCompressed = (client: FakeClient) => !Buffer.isBuffer(client.text?.(true));
    expect(isCompressed(first)).toBe(false);
    await until(() => isCompressed(first));
    expect((await answer(queryOf(engine.ask))).text?.(true)).toBe(first.text?.(true));
    memory.clear();
    await answer(queryOf(engine.ask));
    expect(isCompressed(await answer(queryOf(engine.ask)))).toBe(false);
  });
});
