import { expect, test } from '@jest/globals';
import type { Outcome } from '../../../../src/common/events.ts';
import { cacheStatus } from '../../../../src/line/client.ts';
import { cacheStatusOf } from '../../../support/http-client.ts';

test.each<readonly [Outcome, number, string]>([
  [{ kind: 'hit', detail: 'redis' }, 1999, 'mdx-gateway; hit; ttl=1; detail=redis'],
  [{ kind: 'hit', detail: 'memory' }, 0, 'mdx-gateway; hit; ttl=0; detail=memory'],
  [{ kind: 'miss' }, 0, 'mdx-gateway; fwd=miss'],
  [{ kind: 'miss', stored: true }, 0, 'mdx-gateway; fwd=miss; stored'],
  [{ kind: 'miss', stored: false, detail: 'fault' }, 0, 'mdx-gateway; fwd=miss; detail=fault'],
  [{ kind: 'bypass', detail: 'session' }, 0, 'mdx-gateway; fwd=bypass; detail=session'],
  [{ kind: 'gateway', detail: 'too-big' }, 0, 'mdx-gateway; detail=too-big'],
])('%j is said as RFC 9211 wants it', (outcome, ttl, expected) => {
  expect(cacheStatus(outcome, ttl)).toBe(expected);
});

test('the client of all tests takes no word that is not on the list', () => {
  for (const value of [
    'mdx-gateway; hit; ttl=1; detail=disk',
    'mdx-gateway; hit',
    'mdx-gateway; fwd=bypass; detail=fault',
    'mdx-gateway; fwd=bypass',
    'mdx-gateway; fwd=uri-miss',
    'mdx-gateway',
    'other; hit; detail=memory',
    'mdx-gateway; fwd=miss; colour=red',
  ]) {
    expect(() => cacheStatusOf({ 'cache-status': value })).toThrow(value);
  }
});
