import { describe, expect, test } from '@jest/globals';
import { gzipSync } from 'node:zlib';
import { GatewayError } from '../../../../src/common/errors.ts';
import { until } from '../../../support/http-client.ts';
import { gate, sendXml } from '../../../support/stub-engine.ts';
import { begin, inPieces, longPiece, watchedEngine } from './watch-house.ts';

const { noting, now, start, stub } = watchedEngine();

describe('a watched answer', () => {
  test('is handed on 16 KiB behind what the watch has seen, in whole pieces', async () => {
    const [one, two, three] = ['one ', longPiece('2'), longPiece('3')];
    const engine = inPieces(stub, [one, two, three]);
    const { url } = await start(noting());
    const client = begin(url);
    await until(() => now.told.includes('head 200'));
    engine.open(0);
    await until(() => now.told.includes(one));
    expect(client.begun).toBe(false);
    engine.open(1);
    await until(() => client.text === one);
    engine.open(2);
    await until(() => client.text === `${one}${two}`);
    engine.last();
    expect(await client.over).toBe('whole');
    expect(client.text).toBe(`${one}${two}${three}`);
    expect([now.told[0], now.told.slice(1, -1).join(''), now.told.at(-1)]).toEqual([
      'head 200',
      `${one}${two}${three}`,
      'whole',
    ]);
  });

  test.each([
    ['and a line feed on its own', ['<Envelope>', '</Envelope>', '\n'], 0],
    ['in many pieces behind a long one', [longPiece('1'), 'a', '</Envelope>', ' ', '\n'], 0],
    ['behind more than is held', [longPiece('1'), longPiece('2'), '</Envelope>', '\n'], 1],
  ])('does not let its end %s go before the watch has agreed', async (_what, pieces, gone) => {
    const door = gate();
    const engine = inPieces(stub, pieces);
    const { url } = await start(noting({ end: () => door.opened }));
    const client = begin(url);
    for (const [index] of pieces.entries()) {
      engine.open(index);
      const length = pieces.slice(0, index + 1).join('').length;
      await until(() => now.told.slice(1).join('').length === length);
    }
    engine.last();
    await until(() => now.told.includes('whole'));
    const free = pieces.slice(0, gone).join('');
    await until(() => client.text.length >= free.length);
    for (let turn = 0; turn < 20; turn += 1) await new Promise(setImmediate);
    expect([client.begun, client.text.length]).toEqual([gone > 0, free.length]);
    door.open();
    expect(await client.over).toBe('whole');
    expect(client.text).toBe(pieces.join(''));
  });

  test('does not reach the client before the watch is done with it', async () => {
    const door = gate();
    const engine = inPieces(stub, ['one ', 'two ', 'three']);
    const { url } = await start(
      noting({ write: (chunk) => (`${chunk}` === 'two ' ? door.opened : undefined) }),
    );
    const client = begin(url);
    engine.open(0);
    await until(() => now.told.includes('one '));
    engine.open(1);
    await until(() => now.told.includes('two '));
    engine.open(2);
    engine.last();
    for (let turn = 0; turn < 20; turn += 1) await new Promise(setImmediate);
    expect([client.begun, now.told]).toEqual([false, ['head 200', 'one ', 'two ']]);
    door.open();
    expect(await client.over).toBe('whole');
    expect(client.text).toBe('one two three');
  });

  test.each([
    ['of one piece', sendXml('<a/>'), 200, '<a/>'],
    ['without a body', sendXml('', { status: 202 }), 202, ''],
  ])(
    '%s is not begun before the watch has agreed to its end',
    async (_what, answer, status, text) => {
      const door = gate();
      stub.answerWith(answer);
      const { url } = await start(noting({ end: () => door.opened }));
      const client = begin(url);
      await until(() => now.told.includes('whole'));
      expect(client.begun).toBe(false);
      door.open();
      expect(await client.over).toBe('whole');
      expect([client.head.statusCode, client.text]).toEqual([status, text]);
    },
  );

  test('is asked for without a coding, and comes without the one it has all the same', async () => {
    stub.answerWith(sendXml(gzipSync('<a/>'), { headers: { 'content-encoding': 'gzip' } }));
    const { url } = await start(noting());
    const client = begin(url, { 'accept-encoding': 'gzip, br' });
    expect(await client.over).toBe('whole');
    expect(stub.seen[0]?.headers['accept-encoding']).toBe('identity');
    expect(client.head.headers).not.toHaveProperty('content-encoding');
    expect([client.text, now.told]).toEqual(['<a/>', ['head 200', '<a/>', 'whole']]);
  });

  test('is told to the client as it came: status, headers and length', async () => {
    stub.answerWith(
      sendXml('<a/>', { status: 418, headers: { 'x-one': '1', 'content-length': '4' } }),
    );
    const { url } = await start(noting());
    const client = begin(url);
    expect(await client.over).toBe('whole');
    expect(client.head.statusCode).toBe(418);
    expect(client.head.headers).toMatchObject({ 'x-one': '1', 'content-length': '4' });
  });
});

describe('the error of a watch', () => {
  const refusal = new GatewayError('unknown-session', 'The session is not known.');
  const refuse = () => Promise.reject(refusal);

  test.each([
    ['at the end of a short answer', { end: refuse }],
    [
      'at the head',
      {
        head: () => {
          throw refusal;
        },
      },
    ],
    ['at the first piece', { write: refuse }],
  ])('%s is what the client is told instead', async (_what, does) => {
    stub.answerWith(sendXml('<secret/>'));
    const { url } = await start(noting(does));
    const client = begin(url);
    expect(await client.over).toBe('whole');
    expect(client.text).toContain('The session is not known.');
    expect(client.text).not.toContain('secret');
    expect(client.head.headers['cache-status']).toContain('detail=unknown-session');
    expect(now.told.filter((word) => word === 'whole' || word === 'broken')).toHaveLength(1);
    await now.front?.idle();
    expect([now.house.failures(), now.house.atEngine()]).toEqual([[], 0]);
  });

  test('when pieces are out already breaks the answer off', async () => {
    const engine = inPieces(stub, ['one ', longPiece('2'), 'three']);
    const { url } = await start(noting({ end: refuse }));
    const client = begin(url);
    engine.open(0);
    await until(() => now.told.includes('one '));
    engine.open(1);
    await until(() => client.text === 'one ');
    engine.open(2);
    engine.last();
    expect(await client.over).toBe('broken');
    expect(client.text).not.toContain('three');
    expect(now.told.at(-1)).toBe('whole');
  });
});
