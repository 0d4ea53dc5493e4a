import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals';
import { IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import { createKnownHeads } from '../../../../src/line/memo.ts';

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
/** What a head takes by itself (bytes). */
const HEAD = 1_000;
const MIB = 1024 * 1024;
interface Noted {
  readonly name: string;
  readonly bytes?: number;
}
const knownHeads = () => createKnownHeads<Noted>('s', ({ bytes = HEAD }) => bytes);
const note = (
  heads: ReturnType<typeof knownHeads>,
  of: IncomingMessage,
  value: Noted,
  user = 'alice',
) => heads.note(of, user, value);

describe.each(['its connection', 'another connection'])('a head is known on %s', (where) => {
  function known(head: Head, before: Head = {}): boolean {
    const heads = knownHeads();
    const [mine, other] = [new Socket(), new Socket()];
    const noted = { name: 'noted' };
    note(heads, request(mine, before), noted);
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
    expect(known({}, { method: 'PUT' })).toBe(false);
  });

  test('not without credentials, and not with several', () => {
    const several = { rawHeaders: raw({}).concat('Authorization', 'Basic b') };
    for (const head of [several, { rawHeaders: raw({ authorization: undefined }) }]) {
      expect(known(head, head)).toBe(false);
    }
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
  note(heads, request(one, a), { name: 'a' });
  note(heads, request(one, b), { name: 'b' });
  note(heads, request(one, a), { name: 'a again' });
  for (const socket of [one, other]) {
    expect(heads.of(request(socket, a))?.name).toBe('a again');
    expect(heads.of(request(socket, b))?.name).toBe('b');
  }
});

describe('what a connection keeps by itself', () => {
  const LONG = { rawHeaders: raw({ 'x-anything': 'a'.repeat(8_000) }) };
  const size = (head: Head) =>
    (head.rawHeaders ?? raw({})).reduce((sum, text) => sum + text.length + 32, 256) +
    (head.url ?? '/mdx/xmla/a').length;

  /** Only for a digest is a head spelt as JSON. */
  let digests: jest.Spied<typeof JSON.stringify>;
  beforeEach(() => {
    digests = jest.spyOn(JSON, 'stringify');
  });
  afterEach(() => digests.mockRestore());

  /** Whether the head is found without its digest. */
  function isKept(heads: ReturnType<typeof knownHeads>, on: Socket, head: Head): boolean {
    digests.mockClear();
    expect(heads.of(request(on, head))).toBeDefined();
    return digests.mock.calls.length === 0;
  }

  test('are its last heads, of which all together take no more than 16 KiB', () => {
    const heads = knownHeads();
    const socket = new Socket();
    const urls = Array.from({ length: 20 }, (_, at) => `/${100 + at}`);
    for (const url of urls) note(heads, request(socket, { url }), { name: url });
    const most = Math.floor((16 * 1024) / size({ url: '/100' }));
    const kept = urls.toReversed().findIndex((url) => !isKept(heads, socket, { url }));
    expect(kept).toBe(most);
  });

  test('is one for each of its users', () => {
    const heads = knownHeads();
    const socket = new Socket();
    const users = ['a', 'b', 'c', 'd'].map((name) => ({
      rawHeaders: raw({ authorization: `Basic ${name}` }),
    }));
    for (const user of users) note(heads, request(socket, user), { name: String(user.rawHeaders) });
    for (const user of users) {
      expect(isKept(heads, socket, user)).toBe(true);
      expect(heads.of(request(socket, user))?.name).toBe(String(user.rawHeaders));
    }
  });

  test('is a head once, however often it is noted, also where it takes half of the room', () => {
    const heads = knownHeads();
    const socket = new Socket();
    const half = { url: `/${'a'.repeat(8 * 1024 - size({ url: '/' }))}` };
    const other = { url: half.url.replace('a', 'b') };
    note(heads, request(socket, other), { name: 'other' });
    for (let time = 0; time < 3; time += 1) note(heads, request(socket, half), { name: 'half' });
    expect(isKept(heads, socket, half)).toBe(true);
    expect(isKept(heads, socket, other)).toBe(true);
  });

  test('is no long head, which is found by its digest alone', () => {
    const heads = knownHeads();
    const [socket, other] = [new Socket(), new Socket()];
    note(heads, request(socket, LONG), { name: 'long' });
    note(heads, request(socket), { name: 'short' });
    for (const on of [socket, other]) expect(isKept(heads, on, LONG)).toBe(false);
    expect(isKept(heads, socket, {})).toBe(true);
  });

  test('goes with it, and is found by its digest on another', () => {
    const heads = knownHeads();
    note(heads, request(new Socket()), { name: 'of another' });
    expect(isKept(heads, new Socket(), {})).toBe(false);
  });

  test('is forgotten with what it was noted for', () => {
    const heads = knownHeads();
    const [socket, others] = [new Socket(), new Socket()];
    note(heads, request(socket), { name: 'forgotten' });
    for (let other = 0; other < 5; other += 1) {
      const large = { name: 'other', bytes: 4 * MIB };
      note(heads, request(others, { url: `/other/${other}` }), large, `user ${other}`);
    }
    expect(heads.of(request(socket))).toBeUndefined();
    note(heads, request(others), { name: 'anew' });
    expect(heads.of(request(socket))?.name).toBe('anew');
    expect(isKept(heads, socket, {})).toBe(true);
  });
});

describe('all heads together take no more than 16 MiB', () => {
  const at = (url: string) => request(new Socket(), { url });
  const isKnown = (heads: ReturnType<typeof knownHeads>, url: string) =>
    heads.of(at(url)) !== undefined;

  test('of which one user gets a quarter: the last ones', () => {
    const heads = knownHeads();
    note(heads, at('/of-bob'), { name: 'bob' }, 'bob');
    const urls = Array.from({ length: 20_000 }, (_, number) => `/${number}`);
    for (const url of urls) note(heads, at(url), { name: url });
    const known = urls.filter((url) => isKnown(heads, url));
    expect(known).toEqual(urls.slice(-Math.floor((4 * MIB) / HEAD)));
    expect(isKnown(heads, '/of-bob')).toBe(true);
  });

  test('and one counts by what it takes when it is noted again', () => {
    const heads = knownHeads();
    const grows = { name: 'grows', bytes: MIB };
    note(heads, at('/other'), { name: 'other' });
    note(heads, at('/grows'), grows);
    expect(isKnown(heads, '/other')).toBe(true);
    note(heads, at('/grows'), { ...grows, bytes: 4 * MIB });
    expect([isKnown(heads, '/other'), isKnown(heads, '/grows')]).toEqual([false, true]);
  });
});
