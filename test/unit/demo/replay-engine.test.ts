import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { request as httpRequest } from 'node:http';
import { XmlDocument } from 'libxml2-wasm';
import { startReplayEngine } from '../../../src/demo/replay-engine.ts';

import { recordingOf } from './fake-recordings.ts';

const RECORDINGS = [
  recordingOf('Sales of Ελλάδα', '<q>Ελλάδα & 🫒</q>', '<a>1</a>'),
  recordingOf('Stock <all>', '<q>stock</q>', '<a>2</a>'),
];

let engine: Awaited<ReturnType<typeof startReplayEngine>>;
let slept: number[];

beforeEach(async () => {
  slept = [];
  engine = await startReplayEngine(RECORDINGS, async (milliseconds) => {
    slept.push(milliseconds);
  });
});

afterEach(() => engine.close());

const post = (body: string | Uint8Array<ArrayBuffer>): Promise<Response> =>
  fetch(engine.url, { method: 'POST', headers: { 'content-type': 'text/xml' }, body });

describe('the replay engine', () => {
  test.each(RECORDINGS)('answers "$name" as it was recorded, after as long', async (recording) => {
    const answer = await post(recording.request.body);
    expect(answer.status).toBe(200);
    expect(answer.headers.get('content-type')).toBe('text/xml;charset=utf-8');
    expect(await answer.text()).toBe(recording.answer.body.toString());
    expect(slept).toEqual([250]);
  });

  test.each([
    ['one byte more', '<q>stock</q> '],
    ['other letters of the same question', '<Q>STOCK</Q>'],
    ['nothing', ''],
  ])('answers %s with a Fault that names what it knows', async (_, body) => {
    const answer = await post(body);
    expect(answer.status).toBe(200);
    expect(answer.headers.get('content-type')).toMatch(/^text\/xml/);
    using document = XmlDocument.fromString(await answer.text());
    const faults = document.find('//soap:Fault/faultstring', {
      soap: 'http://schemas.xmlsoap.org/soap/envelope/',
    });
    expect(faults.map(({ content }) => content)).toEqual([
      'This engine only replays recorded questions: Sales of Ελλάδα; Stock <all>.',
    ]);
    expect(slept).toEqual([]);
  });

  test('compares bytes, not what they would decode to', async () => {
    const answer = await post(Buffer.from('<q>Ελλάδα & 🫒</q>', 'utf16le'));
    expect(await answer.text()).toContain('Fault');
  });

  test('listens on loopback only', () => {
    expect(new URL(engine.url).hostname).toBe('127.0.0.1');
  });

  test('closes while an answer is still waited for', async () => {
    const { promise: underWay, resolve: asked } = Promise.withResolvers<void>();
    const slow = await startReplayEngine(RECORDINGS, () => {
      asked();
      return new Promise(() => {});
    });
    const broken = new Promise<Error>((resolve) => {
      const request = httpRequest(slow.url, { method: 'POST' });
      request.once('error', resolve);
      request.end('<q>stock</q>');
    });
    await underWay;
    await slow.close();
    expect(await broken).toMatchObject({ code: 'ECONNRESET' });
  });
});
