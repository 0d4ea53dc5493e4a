import { beforeEach, describe, expect, test } from '@jest/globals';
import { answerBody, type AnswerBody } from '../../../src/proxy/answer-body.ts';

let told: string[];
let body: AnswerBody;
let reader: AsyncIterator<Buffer>;

beforeEach(() => {
  told = [];
  body = answerBody({
    more: () => told.push('more'),
    left: () => told.push('left'),
    over: () => told.push(`over ${body.errored?.message ?? ''}`.trim()),
  });
  reader = body[Symbol.asyncIterator]();
});

const KIB_64 = Buffer.alloc(64 * 1024);
const small = Buffer.from('x');

describe('the body of an answer', () => {
  test('holds its connection up at 64 KiB, until all of that is read', async () => {
    expect(body.push(small)).toBe(true);
    expect(body.push(KIB_64)).toBe(false);
    expect(body.hasUnread()).toBe(true);
    await reader.next();
    expect(told).toEqual([]);
    await reader.next();
    expect([told, body.hasUnread()]).toEqual([['more'], false]);
    expect(body.push(small)).toBe(true);
  });

  test('does not hold its connection up while somebody waits for it', async () => {
    const waited = reader.next();
    expect(body.push(KIB_64)).toBe(true);
    expect(await waited).toEqual({ done: false, value: KIB_64 });
  });

  test('is over when its end was read, not when it came', async () => {
    body.push(small);
    body.end();
    expect(told).toEqual([]);
    await reader.next();
    expect(await reader.next()).toMatchObject({ done: true });
    expect(told).toEqual(['over']);
    body.fail(new Error('late'));
    await reader.return?.();
    expect(told).toEqual(['over']);
  });

  test('ends for whoever waits for it', async () => {
    const waited = reader.next();
    body.end();
    expect(await waited).toMatchObject({ done: true });
    expect(told).toEqual(['over']);
  });

  test('that broke off fails at once, whatever lies there, and once', async () => {
    body.push(small);
    body.fail(new Error('broken'));
    body.fail(new Error('again'));
    expect(told).toEqual(['over broken']);
    await expect(reader.next()).rejects.toThrow('broken');
    expect(body.hasUnread()).toBe(false);
  });

  test('that breaks off fails for whoever waits for it', async () => {
    const waited = reader.next();
    body.fail(new Error('broken'));
    await expect(waited).rejects.toThrow('broken');
  });

  test('that is left before its end came ends its request; after that it has none', async () => {
    body.push(small);
    for await (const _ of body) break;
    expect(told).toEqual(['over', 'left']);
    expect(body.push(small)).toBe(true);
    const whole = answerBody({ more() {}, left: () => told.push('wrong'), over() {} });
    whole.end();
    whole.destroy();
    expect(told).toEqual(['over', 'left']);
  });
});
