import { expect, test } from '@jest/globals';
import { createMemoryTier } from '../../../../src/cache/memory-tier.ts';
import { bodyAccount, handClock, storedAnswer } from '../fakes.ts';

const MANY = 1_000;

function filled() {
  const account = bodyAccount();
  let freed = 0;
  const counting = {
    ...account,
    countSending(bytes: number) {
      freed += 1;
      account.countSending(bytes);
    },
  };
  const memory = createMemoryTier({
    maxBytes: 10_000_000,
    clock: handClock(),
    account: counting,
  });
  for (let at = 0; at < MANY; at += 1) {
    const body = Buffer.alloc(10);
    memory.set(`key ${at}`, storedAnswer({ body }), 'digests', at < 10 ? 'warm' : 'usual');
  }
  return { memory, account, counted: () => freed };
}

test('a purge of everything looks at no body but those that are sent', () => {
  const { memory, account, counted } = filled();
  const bodies = [1, 2].map((at) => memory.get(`key ${at}`)!.body);
  const letGo = bodies.map((body) => memory.hold(body));
  memory.clear();
  expect(memory.usage()).toEqual({ entries: 0, bytes: 0 });
  expect(account.usage().bytes.sending).toBe(20);
  expect(counted()).toBe(2);
  for (const end of letGo) end();
  expect(account.usage().bytes.sending).toBe(0);
});

test('what was filled for no user and not used counts as wasted after a purge, once', () => {
  const { memory } = filled();
  memory.get('key 0', true);
  memory.clear();
  expect(memory.warmed()).toEqual({ hits: 1, wasted: 9 });
  memory.set('key 0', storedAnswer(), 'digests', 'warm');
  memory.clear();
  memory.clear();
  expect(memory.warmed()).toEqual({ hits: 1, wasted: 10 });
  expect(memory.evictions()).toEqual({ all: 0, unused: 0 });
});

test('what comes after a purge is dropped and counted as ever', () => {
  const { memory, account } = filled();
  const body = memory.get('key 1')!.body;
  memory.clear();
  memory.set('again', storedAnswer({ body: body as Buffer }), 'digests');
  const letGo = memory.hold(body);
  expect(account.usage().bytes.sending).toBe(0);
  memory.clear();
  expect(account.usage().bytes.sending).toBe(10);
  letGo();
  expect([...memory.list().each]).toEqual([]);
});
