import { describe, expect, test } from '@jest/globals';
import { createMemoryEpochStore } from '../../../../src/query-cache/purge/memory-epoch-store.ts';

function store() {
  let made = 0;
  return createMemoryEpochStore({ newToken: () => `token ${(made += 1)}`, keySecret: 'secret' });
}

describe('epochs in the memory of a gateway that is alone', () => {
  test('stay as they are until they are renewed', async () => {
    const epochs = store();
    const scopes = ['everything', 'unassigned', 'project:a'] as const;
    const first = await epochs.read(scopes);
    expect(new Set(first.tokens).size).toBe(3);
    expect(first.keySecret).toBe('secret');
    expect(await epochs.read(scopes)).toEqual(first);
    await epochs.renew(['project:a', 'unassigned']);
    const second = await epochs.read(scopes);
    expect(second.tokens[0]).toBe(first.tokens[0]);
    expect(second.tokens[1]).not.toBe(first.tokens[1]);
    expect(second.tokens[2]).not.toBe(first.tokens[2]);
  });

  test('let a purge be answered at once, since nobody else uses them', async () => {
    expect(await store().renew(['everything'])).toBe(0);
  });

  test('of forgotten projects are new ones, never those of before', async () => {
    const epochs = store();
    const [before] = (await epochs.read(['project:a'])).tokens;
    for (let i = 0; i < 100_000; i += 1) await epochs.read([`project:other ${i}`]);
    expect((await epochs.read(['project:a'])).tokens[0]).not.toBe(before);
  });
});
