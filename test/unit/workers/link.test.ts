import { describe, expect, test } from '@jest/globals';
import { createLink } from '../../../src/workers/link.ts';
import { linkPair } from '../../support/link-pair.ts';
import { checkpoint, quiet } from '../cache/fakes.ts';

/** Longer than any test. */
const LONG = 60_000;

describe('a call over a link', () => {
  test('is answered with what the method gives, as JSON', async () => {
    const { worker, primary } = linkPair();
    primary.serve('texts', { join: (...texts) => ({ joined: texts.join('+'), gone: undefined }) });
    const answer = await worker.call('texts', 'join', ['a\uD800', null, 'é\0'], LONG);
    expect(answer).toEqual({ joined: 'a\uD800++é\0' });
  });

  test('goes in both directions', async () => {
    const { worker, primary } = linkPair();
    worker.serve('worker', { name: async () => 'one' });
    expect(await primary.call('worker', 'name', [], LONG)).toBe('one');
  });

  test('of a method that is not there fails, also of one that every object has', async () => {
    const { worker, primary } = linkPair();
    primary.serve('texts', { join: () => '' });
    for (const [service, method] of [
      ['texts', 'split'],
      ['numbers', 'join'],
      ['texts', 'toString'],
      ['texts', 'constructor'],
    ] as const) {
      await expect(worker.call(service, method, [], LONG)).rejects.toThrow(
        `there is no ${service}.${method} here`,
      );
    }
  });

  test('of a method that throws fails with its message', async () => {
    const { worker, primary } = linkPair();
    primary.serve('texts', {
      now: () => {
        throw new Error('broken now');
      },
      later: () => Promise.reject(new Error('broken later')),
    });
    await expect(worker.call('texts', 'now', [], LONG)).rejects.toThrow('broken now');
    await expect(worker.call('texts', 'later', [], LONG)).rejects.toThrow('broken later');
  });

  test('that takes too long fails, and its late answer is nobody else’s', async () => {
    const { worker, primary } = linkPair();
    const slow = checkpoint();
    primary.serve('texts', {
      slow: async () => {
        await slow.arrive();
        return 'late';
      },
      quick: () => 'in time',
    });
    await expect(worker.call('texts', 'slow', [], 1)).rejects.toThrow(
      'the primary process did not answer texts.slow within 1 ms',
    );
    await slow.arrived;
    slow.release();
    expect(await worker.call('texts', 'quick', [], LONG)).toBe('in time');
    await quiet();
  });

  test('that was answered while this process stood still is answered', async () => {
    const { worker, primary } = linkPair();
    const slow = checkpoint();
    primary.serve('texts', {
      slow: async () => {
        await slow.arrive();
        return 'in time';
      },
    });
    const answer = await new Promise((resolve, reject) => {
      worker.call('texts', 'slow', [], 100).then(resolve, reject);
      void slow.arrived.then(() => {
        // From here the loop comes to the timer of the deadline before it comes to the answer.
        setImmediate(() => {
          slow.release();
          const until = performance.now() + 120;
          while (performance.now() < until);
        });
      });
    });
    expect(answer).toBe('in time');
  });

  test('is done in the order in which it was sent', async () => {
    const { worker, primary } = linkPair();
    const done: unknown[] = [];
    primary.serve('texts', { note: (text) => void done.push(text) });
    await Promise.all([1, 2, 3].map((each) => worker.call('texts', 'note', [each], LONG)));
    expect(done).toEqual([1, 2, 3]);
  });

  test('fails when the link is closed, before and meanwhile', async () => {
    const { worker, primary } = linkPair();
    primary.serve('texts', { never: () => new Promise(() => {}) });
    const waiting = worker.call('texts', 'never', [], LONG);
    worker.close();
    await expect(waiting).rejects.toThrow('the link to the primary process is closed');
    await expect(worker.call('texts', 'never', [], LONG)).rejects.toThrow('is closed');
  });

  test('fails at once when the other process is gone', async () => {
    const link = createLink({ on: () => {} }, 'the primary process');
    await expect(link.call('texts', 'join', [], LONG)).rejects.toThrow(
      'the primary process is gone',
    );
    const closing = createLink(
      {
        on: () => {},
        send(_message, _connection, _options, callback) {
          setImmediate(() => callback(new Error('channel closed')));
        },
      },
      'the primary process',
    );
    await expect(closing.call('texts', 'join', [], LONG)).rejects.toThrow('channel closed');
  });
});

describe('what is told over a link', () => {
  test('reaches who serves it, and is not answered', async () => {
    const { worker, primary, toPrimary } = linkPair();
    const heard: unknown[] = [];
    const answers: unknown[] = [];
    toPrimary.filter = (message) => answers.push(message) > 0;
    worker.serve('news', { came: (...said) => void heard.push(['one', ...said]) });
    primary.tell('news', 'came', 1, 'a');
    primary.tell('other news', 'came', 2);
    await quiet();
    worker.serve('news', { came: (...said) => void heard.push(['other', ...said]) });
    primary.tell('news', 'came', 3);
    await quiet();
    expect(heard).toEqual([
      ['one', 1, 'a'],
      ['other', 3],
    ]);
    expect(answers).toEqual([]);
  });

  test('and cannot be read does no harm', async () => {
    const { worker, primary } = linkPair();
    const heard: unknown[] = [];
    worker.serve('news', {
      came(value) {
        if (value === 0) throw new Error('unreadable');
        heard.push(value);
      },
    });
    primary.tell('news', 'came', 0);
    primary.tell('news', 'came', 1);
    await quiet();
    expect(heard).toEqual([1]);
  });

  test('is left while a process that stalls reads nothing, but calls are sent', () => {
    const sent: unknown[] = [];
    const link = createLink({ on: () => {}, send: (message) => sent.push(message) }, 'the worker');
    for (let i = 0; i < 5_000; i += 1) link.tell('news', 'came', i);
    expect(sent.length).toBeLessThan(1_100);
    const before = sent.length;
    link.call('worker', 'stop', [], LONG).catch(() => {});
    expect(sent.length).toBe(before + 1);
    link.close();
  });
});

test.each([null, 'text', {}, { cmd: 'NODE_CLUSTER' }, { kind: 'else', id: 1 }])(
  'a message of somebody else is none: %j',
  async (message) => {
    const listeners: ((said: unknown) => void)[] = [];
    const sent: unknown[] = [];
    const link = createLink(
      {
        send: (said) => sent.push(said),
        on: (_event, listener) => listeners.push(listener),
      },
      'the worker',
    );
    const waiting = link.call('worker', 'name', [], LONG);
    for (const listener of listeners) listener(message);
    await quiet();
    expect(sent).toHaveLength(1);
    link.close();
    await expect(waiting).rejects.toThrow('is closed');
  },
);
