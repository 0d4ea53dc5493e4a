import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import * as fc from 'fast-check';
import { mddatasetAnswer } from '../support/answers.ts';
import { execute } from '../support/envelopes.ts';
import { askXmla, shortStatus, type XmlaMessage } from '../support/http-client.ts';
import { sizes } from '../support/sizes.ts';
import {
  sendXml,
  startStubEngine,
  type SeenRequest,
  type StubEngine,
} from '../support/stub-engine.ts';
import { startTestGateway, type TestGateway } from '../support/test-gateway.ts';

/**
 * The promise behind every hit: whoever is answered from an entry sent a request that would have reached the
 * engine just as the one that made the entry. What a client can send is tried in both directions: it is
 * stripped, or it makes another key.
 */

let engine: StubEngine;
let gateway: TestGateway;
let count = 0;

beforeAll(async () => {
  engine = await startStubEngine(sendXml(mddatasetAnswer()));
  gateway = await startTestGateway({
    engine: { url: `${engine.url}/{project}`, login: 'forward' },
  });
});
afterAll(async () => {
  await gateway.close();
  await engine.close();
});

const query = (statement: string, properties = {}) => execute({ statement, properties });

const IGNORED = ['DbpropMsmdActivityID', 'ClientProcessID', 'Timeout', 'SspropInitPacketsize'];

describe('any two requests', () => {
  const header = fc.record(
    {
      accept: fc.constantFrom(
        'text/xml',
        '*/*',
        'text/xml, */*',
        'application/xml;q=0.5',
        'image/png',
      ),
      'user-agent': fc.constantFrom('MSOLAP 1', 'MSOLAP/2', 'Java/17', 'curl', ''),
      'content-type': fc.constantFrom(
        'text/xml',
        'text/xml; charset=utf-8',
        'text/xml;charset="utf-8"',
        'TEXT/XML; Charset=UTF-8',
        'application/xml',
        'text/xml; charset=utf8',
      ),
      soapaction: fc.constantFrom(
        '',
        '"urn:schemas-microsoft-com:xml-analysis:Execute"',
        'urn:schemas-microsoft-com:xml-analysis:Execute',
      ),
      cookie: fc.constantFrom('a=1', 'JSESSIONID=2'),
      'accept-language': fc.constantFrom('de', 'en'),
      'accept-encoding': fc.constantFrom('gzip', 'identity'),
      'x-as-activityid': fc.constantFrom('1', '2'),
      'x-other': fc.constantFrom('1', '2'),
      connection: fc.constantFrom('close', 'keep-alive', 'close, accept'),
    },
    { requiredKeys: [] },
  );
  const parameter = fc.constantFrom(
    'a=1',
    'a=2',
    'A=1',
    'b',
    'b=',
    '%61=1',
    'username=x',
    'USERID=1',
    '',
  );
  const properties = fc.dictionary(
    fc.constantFrom('Catalog', 'catalog', 'Format', 'LocaleIdentifier', ...IGNORED),
    fc.constantFrom('1', '2', ''),
    { maxKeys: 3 },
  );
  const request = fc.record({
    user: fc.constantFrom('alice' as const, 'bob' as const),
    project: fc.constantFrom('', '/p', '/P', '/%70', '/q%2Fp'),
    search: fc.array(parameter, { maxLength: 3 }).map((list) => list.join('&')),
    headers: header,
    properties,
    statement: fc.constantFrom(
      'SELECT FROM [S]',
      'select FROM [S]',
      ' SELECT FROM [S]\r\n',
      'SELECT FROM\n[S]',
    ),
  });

  type Asked = typeof request extends fc.Arbitrary<infer T> ? T : never;
  /** A request, and the same with one thing changed; a header may also be added or taken away. */
  const pair = fc
    .tuple(
      request,
      request,
      fc.constantFrom('user', 'project', 'search', 'headers', 'properties', 'statement'),
      fc.constantFrom(
        'accept',
        'user-agent',
        'content-type',
        'soapaction',
        'cookie',
        'connection',
        'x-other',
      ),
    )
    .map(([first, other, changed, name]): readonly [Asked, Asked] => {
      if (changed !== 'headers') return [first, { ...first, [changed]: other[changed] }];
      return [
        first,
        { ...first, headers: { ...first.headers, [name]: other.headers[name] ?? '' } },
      ];
    });

  /** The body without what the ignore-list names, and without the white space and CR that no engine reads. */
  const significant = (body: string) =>
    IGNORED.reduce(
      (text, name) => text.replaceAll(new RegExp(`<${name}>[^<]*</${name}>`, 'g'), ''),
      body,
    )
      .replaceAll('&#13;', '')
      .replace(/<Statement>\s*(.*?)\s*<\/Statement>/s, '<Statement>$1</Statement>')
      .replace(/<PropertyList>(.*)<\/PropertyList>/s, (_all, list: string) =>
        (list.match(/<(\w+)>.*?<\/\1>/gs) ?? []).toSorted().join(''),
      );

  test('that share an entry reach the engine alike', async () => {
    let entries = 0;
    let hits = 0;
    /** What the engine saw for the entry of each answer; the answers carry their number. */
    const made: SeenRequest[] = [];
    engine.answerWith((response, seen) => {
      made.push(seen);
      sendXml(mddatasetAnswer({ members: [`answer ${made.length - 1}`] }))(response, seen);
    });
    const shape = (seen: SeenRequest) => {
      const headers = Object.entries(seen.headers).filter(([name]) => name !== 'content-length');
      return { url: seen.url, headers, body: significant(seen.body.toString()) };
    };
    /** The same gateway without any cache shows how a request reaches the engine. */
    const transparent = await startTestGateway(
      {
        engine: { url: `${engine.url}/{project}`, login: 'forward' },
        cache: { ttl: '1s' },
      },
      { clock: { now: () => performance.now(), wall: () => (count += 1) * 1e7 } },
    );
    const messageOf = ({ user, project, search, headers }: Asked): XmlaMessage => ({
      user,
      path: `/mdx/xmla${project}?${search}`,
      headers: headers as Record<string, string>,
    });
    await fc.assert(
      fc.asyncProperty(pair, async (asked) => {
        for (const one of asked) {
          const body = query(one.statement, one.properties);
          const answer = await askXmla(gateway.url, body, messageOf(one));
          const status = shortStatus(answer);
          if (status === 'miss stored') entries += 1;
          if (status !== 'hit') continue;
          hits += 1;
          const source = made[Number(/answer (\d+)/.exec(answer.text)?.[1])];
          const before = made.length;
          await askXmla(transparent.url, body, messageOf(one));
          const own = made[before];
          if (source === undefined || own === undefined) throw new Error('nothing to compare');
          expect(shape(own)).toEqual(shape(source));
        }
      }),
      { numRuns: sizes.propertyRuns * 2 },
    );
    await transparent.close();
    console.log(`equal keys: ${JSON.stringify({ entries, hits })}`);
    expect(hits).toBeGreaterThan(20);
    expect(entries).toBeGreaterThan(20);
  });
});
