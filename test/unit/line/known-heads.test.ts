import { describe, expect, test } from '@jest/globals';
import { IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import { createKnownHeads } from '../../../src/line/memo.ts';

/** Their values are new in every request. */
const IDS = {
  'content-length': '100',
  'X-AS-ActivityID': '1',
  'x-as-requestid': '1',
  'x-request-id': '1',
  'x-correlation-id': '1',
  traceparent: '00-1-1-01',
  tracestate: 'a=1',
  baggage: 'a=1',
  b3: '1-1-1',
  'x-b3-traceid': '1',
  'x-b3-spanid': '1',
  'x-b3-parentspanid': '1',
  'X-Amzn-Trace-Id': 'Root=1-1',
  'x-cloud-trace-context': '1/1',
  'sentry-trace': '1-1',
};
const PLAIN = {
  host: 'gateway',
  authorization: 'Basic YWxpY2U6YWxpY2U=',
  'content-type': 'text/xml',
  accept: '*/*',
  'accept-encoding': 'gzip',
  soapaction: '"urn:schemas-microsoft-com:xml-analysis:Execute"',
  'user-agent': 'MSOLAP 15',
  'x-transport-caps-negotiation-flags': '0,0,0,0,0',
  'cache-control': 'max-age=10',
  'x-as-sessionid': 'a',
  'x-anything': 'a',
  // By these a request is told apart that another site forged.
  origin: 'http://gateway',
  referer: 'http://gateway/docs',
  'sec-fetch-site': 'same-origin',
  'sec-purpose': '',
  purpose: '',
  'x-moz': '',
};
const ALL: Readonly<Record<string, string>> = { ...PLAIN, ...IDS };

interface Head {
  readonly method?: string;
  readonly url?: string;
  readonly httpVersion?: string;
  readonly rawHeaders?: readonly string[];
}

function request(socket: Socket, head: Head = {}): IncomingMessage {
  const { method = 'POST', url = '/mdx/xmla/a', rawHeaders = raw({}) } = head;
  const { httpVersion = '1.1' } = head;
  return Object.assign(new IncomingMessage(socket), { method, url, httpVersion, rawHeaders });
}

/** Names and values in turn; undefined leaves a header out. */
const raw = (change: Readonly<Record<string, string | undefined>>): string[] =>
  Object.entries({ ...ALL, ...change }).flatMap(([name, value]) =>
    value === undefined ? [] : [name, value],
  );
const knownHeads = () => createKnownHeads<{ readonly name: string }>('s');

describe.each(['its connection', 'another connection'])('a head is known on %s', (where) => {
  function known(head: Head, before: Head = {}): boolean {
    const heads = knownHeads();
    const [mine, other] = [new Socket(), new Socket()];
    const noted = { name: 'noted' };
    heads.note(request(mine, before), noted);
    return heads.of(request(where === 'its connection' ? mine : other, head)) === noted;
  }

  test('as it was', () => {
    expect(known({})).toBe(true);
  });

  test.each(Object.keys(IDS))('whatever the value of %s is', (name) => {
    expect(known({ rawHeaders: raw({ [name]: 'another' }) })).toBe(true);
  });

  test('not by another method, also when one was noted', () => {
    expect(known({ method: 'PUT' })).toBe(false);
    expect(known({ method: 'PUT' }, { method: 'PUT' })).toBe(false);
  });

  test.each<[string, Head]>([
    ['to another project', { url: '/mdx/xmla/b' }],
    ['of another version', { httpVersion: '1.0' }],
    ['with a query', { url: '/mdx/xmla/a?x=1' }],
    ['with a header more', { rawHeaders: [...raw({}), 'x-more', '1'] }],
    ['with one of its headers twice', { rawHeaders: [...raw({}), 'accept', '*/*'] }],
    ['with a header more in front', { rawHeaders: ['accept', '*/*', ...raw({})] }],
    ['with an id more', { rawHeaders: [...raw({}), 'x-request-id', '2'] }],
    ['in another order', { rawHeaders: otherOrder() }],
    ...Object.keys(ALL).map((name): [string, Head] => [
      `without ${name}`,
      { rawHeaders: raw({ [name]: undefined }) },
    ]),
    ...Object.keys(ALL).map((name): [string, Head] => [
      `with ${name} under another name`,
      { rawHeaders: raw({}).map((text) => (text === name ? 'x-other' : text)) },
    ]),
    ...Object.entries(PLAIN).map(([name, value]): [string, Head] => [
      `with another ${name}`,
      { rawHeaders: raw({ [name]: `${value} ` }) },
    ]),
  ])('not %s', (_why, head) => {
    expect(known(head)).toBe(false);
  });

  function otherOrder(): string[] {
    const [name = '', value = '', ...others] = raw({});
    return [...others, name, value];
  }
});

test('each head is known for what was noted under it last', () => {
  const heads = knownHeads();
  const [one, other] = [new Socket(), new Socket()];
  const [a, b] = [{}, { url: '/mdx/xmla/b' }];
  heads.note(request(one, a), { name: 'a' });
  heads.note(request(one, b), { name: 'b' });
  heads.note(request(one, a), { name: 'a again' });
  for (const socket of [one, other]) {
    expect(heads.of(request(socket, a))?.name).toBe('a again');
    expect(heads.of(request(socket, b))?.name).toBe('b');
  }
});

describe('what a connection keeps by itself', () => {
  const LONG = { rawHeaders: raw({ 'x-anything': 'a'.repeat(8_000) }) };

  /** After so many others nothing is found by its digest that was noted before. */
  function crowdOut(heads: ReturnType<typeof knownHeads>): void {
    const socket = new Socket();
    for (let other = 0; other < 10_000; other += 1) {
      heads.note(request(socket, { url: `/other/${other}` }), { name: 'other' });
    }
  }

  test('are its last heads, of which all together are no longer than 32 KiB', () => {
    const heads = knownHeads();
    const socket = new Socket();
    const urls = Array.from({ length: 100 }, (_, at) => `/${100 + at}`);
    for (const url of urls) heads.note(request(socket, { url }), { name: url });
    crowdOut(heads);
    const kept = urls.filter((url) => heads.of(request(socket, { url })) !== undefined);
    const size = raw({}).reduce((sum, text) => sum + text.length + 24, '/100'.length);
    expect(kept).toEqual(urls.slice(-Math.floor((32 * 1024) / size)));
  });

  test('is one for each of its users', () => {
    const heads = knownHeads();
    const socket = new Socket();
    const users = Array.from({ length: 8 }, (_, at) => ({
      rawHeaders: raw({ authorization: `Basic ${at}` }),
    }));
    for (const user of users) heads.note(request(socket, user), { name: String(user.rawHeaders) });
    crowdOut(heads);
    for (const user of users) {
      expect(heads.of(request(socket, user))?.name).toBe(String(user.rawHeaders));
    }
  });

  test('is no long head, which is found by its digest alone', () => {
    const heads = knownHeads();
    const [socket, other] = [new Socket(), new Socket()];
    heads.note(request(socket, LONG), { name: 'long' });
    heads.note(request(socket), { name: 'short' });
    for (const on of [socket, other]) expect(heads.of(request(on, LONG))?.name).toBe('long');
    crowdOut(heads);
    for (const on of [socket, other]) expect(heads.of(request(on, LONG))).toBeUndefined();
    expect(heads.of(request(socket))?.name).toBe('short');
  });

  test('goes with it', () => {
    const heads = knownHeads();
    heads.note(request(new Socket()), { name: 'of another' });
    crowdOut(heads);
    expect(heads.of(request(new Socket()))).toBeUndefined();
  });
});
