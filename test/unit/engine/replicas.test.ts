import { describe, expect, test } from '@jest/globals';
import * as fc from 'fast-check';
import { NotConnected, StaleConnection } from '../../../src/proxy/upstream.ts';
import { createReplicas } from '../../../src/engine/replicas.ts';
import { sizes } from '../../support/sizes.ts';
import { engineConfig } from './engine-house.ts';

const URLS = ['http://a/xmla', 'http://b/xmla', 'http://c/xmla'];
const alive = new AbortController().signal;

function setUp(urls: readonly string[] = URLS) {
  const clock = { at: 0, now: () => clock.at, wall: () => clock.at };
  const replicas = createReplicas(engineConfig(urls), clock, true);
  /** Asks once, while no connection can be made to those that are down. */
  async function tried(down: readonly string[] = [], name?: string): Promise<string[]> {
    const order: string[] = [];
    const asked = replicas.reach({ replica: name }, alive, async ({ url }) => {
      order.push(url);
      if (down.includes(url)) throw new NotConnected(new Error(`no ${url}`));
    });
    await asked.catch(() => {});
    return order.map((url) => new URL(url).hostname);
  }
  return { ...replicas, clock, tried };
}

describe('the replicas of an engine', () => {
  test('are asked in turn', async () => {
    const { tried } = setUp();
    const order = [await tried(), await tried(), await tried(), await tried()];
    expect(order).toEqual([['a'], ['b'], ['c'], ['a']]);
  });

  test('step in for one that no connection reaches', async () => {
    const { tried } = setUp();
    expect(await tried(['http://a/xmla'])).toEqual(['a', 'b']);
  });

  test('are asked last for a while when no connection reached them, and then in turn again', async () => {
    const { tried, clock } = setUp();
    await tried(['http://a/xmla']);
    const soon = [await tried(), await tried(), await tried()];
    expect(soon.flat()).not.toContain('a');
    expect(await tried(['http://b/xmla', 'http://c/xmla'])).toEqual(
      expect.arrayContaining(['a', 'b', 'c']),
    );
    clock.at += 5_000;
    const later = [await tried(), await tried(), await tried()];
    expect(later.flat().toSorted()).toEqual(['a', 'b', 'c']);
  });

  test('are tried again by one request after a while: no other waits for that try', async () => {
    const { tried, reach, clock } = setUp(URLS.slice(0, 2));
    await tried(['http://a/xmla']);
    clock.at += 5_000;
    const order: string[] = [];
    const never = Promise.withResolvers<void>();
    const ask = () =>
      reach({}, alive, async ({ url }) => {
        order.push(url);
        if (url === URLS[0]) await never.promise;
      });
    const all = Array.from({ length: 10 }, ask);
    expect(order.filter((url) => url === URLS[0])).toHaveLength(1);
    never.resolve();
    await Promise.all(all);
  });

  test('are not away where a connection fails that was begun before another was answered', async () => {
    const { reach, isAway, clock, tried } = setUp([URLS[0] as string]);
    const fails = Promise.withResolvers<never>();
    const slow = reach({}, alive, () => fails.promise);
    clock.at += 3_000;
    await tried();
    clock.at += 1_000;
    fails.reject(new NotConnected(new Error('no connection in time')));
    await expect(slow).rejects.toBeInstanceOf(NotConnected);
    expect([isAway(), await tried()]).toEqual([false, ['a']]);
    expect([await tried(URLS), isAway()]).toEqual([['a'], true]);
  });

  test('are all asked when no connection reached any of them', async () => {
    const { tried } = setUp();
    expect((await tried(URLS)).toSorted()).toEqual(['a', 'b', 'c']);
    expect((await tried(URLS)).toSorted()).toEqual(['a', 'b', 'c']);
  });

  test('may take long for a connection only while none could step in and it is not known to be away', async () => {
    const { reach } = setUp();
    const limits: unknown[] = [];
    const ask = () =>
      reach({}, alive, async (_replica, limit) => {
        limits.push(limit);
        throw new NotConnected(new Error('none'));
      }).catch(() => {});
    await ask();
    expect(limits.splice(0)).toEqual([3_000, 3_000, 10_000]);
    await ask();
    expect(limits).toEqual([3_000, 3_000, 3_000]);
  });

  test('are away once no connection reached any of them, until one answers', async () => {
    const { isAway, tried } = setUp();
    await tried(URLS.slice(0, 2));
    expect([isAway(), isAway(URLS[0]), isAway(URLS[2])]).toEqual([false, true, false]);
    await tried(URLS);
    expect([isAway(), isAway(URLS[2]), isAway('http://unknown')]).toEqual([true, true, true]);
    await tried([], URLS[1]);
    expect([isAway(), isAway(URLS[0]), isAway(URLS[1])]).toEqual([false, true, false]);
  });

  test('that are away are tried by one request a second, to which all answer alike', async () => {
    const { isAway, tried, clock } = setUp();
    await tried(URLS);
    clock.at += 999;
    expect(isAway()).toBe(true);
    clock.at += 1;
    expect(isAway()).toBe(false);
    await tried(URLS);
    expect(isAway()).toBe(true);
  });

  test('that are away are asked by each request where they refuse it at once', async () => {
    const { tried } = setUp([URLS[0] as string]);
    expect([await tried(URLS), await tried(URLS)]).toEqual([['a'], ['a']]);
  });

  test('that swallow connections fail all but one request a second at once', async () => {
    const { reach, clock } = setUp([URLS[0] as string]);
    let attempts = 0;
    const failure = new NotConnected(new Error('no connection in time'));
    const ask = () =>
      reach({}, alive, async () => {
        attempts += 1;
        clock.at += 3_000;
        throw failure;
      });
    await expect(ask()).rejects.toBe(failure);
    for (let n = 0; n < 9; n += 1) await expect(ask()).rejects.toBe(failure);
    expect(attempts).toBe(1);
    clock.at += 1_000;
    await expect(ask()).rejects.toBe(failure);
    expect(attempts).toBe(2);
  });

  test('are never asked after one to which something may have been sent', async () => {
    const { reach } = setUp();
    const broken = new Error('reset');
    let attempts = 0;
    const asked = reach({}, alive, async () => {
      attempts += 1;
      throw broken;
    });
    await expect(asked).rejects.toBe(broken);
    expect(attempts).toBe(1);
  });

  test.each([
    ['once more where that changes nothing', true, 2],
    ['never again elsewhere', false, 1],
  ])('are asked, on a connection that had ended, %s', async (_what, again, attempts) => {
    const { reach } = setUp(URLS.slice(0, 2));
    const stale = new StaleConnection(new Error('reset'));
    const asked: string[] = [];
    const reached = reach({ again }, alive, async ({ url }) => {
      asked.push(url);
      throw stale;
    });
    await expect(reached).rejects.toBe(stale);
    expect(asked).toEqual(Array.from({ length: attempts }, () => 'http://a/xmla'));
  });

  test('are not asked for a client that has gone, which says nothing of the one it waited for', async () => {
    const { reach, tried } = setUp(URLS.slice(0, 2));
    const gone = new AbortController();
    const reason = new Error('gone');
    let attempts = 0;
    const asked = reach({}, gone.signal, async () => {
      attempts += 1;
      gone.abort();
      throw new NotConnected(reason);
    });
    await expect(asked).rejects.toMatchObject({ cause: reason });
    expect(attempts).toBe(1);
    const next = [await tried(), await tried()];
    expect(next).toEqual([['b'], ['a']]);
  });

  test('tell what stood in the way of the last one', async () => {
    const { reach } = setUp();
    const asked = reach({}, alive, async ({ url }) => {
      throw new NotConnected(new Error(url));
    });
    await expect(asked).rejects.toMatchObject({ cause: new Error('http://c/xmla') });
  });
});

describe('a session', () => {
  test('never reaches another replica than its own', async () => {
    const { tried } = setUp();
    expect(await tried(['http://b/xmla'], 'http://b/xmla')).toEqual(['b']);
    expect(await tried([], 'http://b/xmla')).toEqual(['b']);
  });

  test('whose replica is no longer configured is answered by any', async () => {
    const { tried } = setUp();
    expect(await tried(['http://a/xmla'], 'http://old/xmla')).toEqual(['a', 'b']);
  });

  test('that begins is put on the next replica that could be reached', async () => {
    const { nameFor, tried } = setUp();
    await tried(['http://a/xmla']);
    const names = [1, 2, 3, 4].map(() => nameFor(undefined));
    expect(names).toEqual([URLS[1], URLS[2], URLS[1], URLS[2]]);
  });

  test('that begins takes its turn whatever else is asked meanwhile', async () => {
    const { nameFor, tried } = setUp(URLS.slice(0, 2));
    const names: string[] = [];
    for (let count = 0; count < 4; count += 1) {
      names.push(nameFor(undefined));
      await tried();
    }
    expect(new Set(names)).toEqual(new Set(URLS.slice(0, 2)));
  });

  test('of which nothing is known has one replica at every gateway, reached or not', async () => {
    const one = setUp();
    const other = setUp(URLS.toReversed());
    await one.tried(URLS);
    fc.assert(
      fc.property(fc.string(), (id) => {
        expect(one.nameFor(id)).toBe(other.nameFor(id));
      }),
      { numRuns: sizes.propertyRuns },
    );
  });

  test('moves only when its own replica is taken away', () => {
    const all = setUp();
    const fewer = setUp(URLS.slice(0, 2));
    const names = Array.from({ length: 200 }, (_, count) => all.nameFor(`session ${count}`));
    expect(new Set(names)).toEqual(new Set(URLS));
    for (const [count, name] of names.entries()) {
      if (name !== URLS[2]) expect(fewer.nameFor(`session ${count}`)).toBe(name);
    }
  });
});
