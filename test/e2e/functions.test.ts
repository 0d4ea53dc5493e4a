import { beforeEach, describe, expect, test } from '@jest/globals';
import type { Parameter } from '../../src/xmla/request/read-request.ts';
import { mddatasetAnswer, rowsetAnswer } from '../support/answers.ts';
import { discover, execute } from '../support/envelopes.ts';
import { askXmla, send, shortStatus } from '../support/http-client.ts';
import { sendXml, startStubEngine } from '../support/stub-engine.ts';
import { basic, startTestGateway } from '../support/test-gateway.ts';
import { shared } from '../support/opened.ts';

const engine = shared(() => startStubEngine(() => {}));
const gateway = shared(() => startTestGateway(settings()));

type Settings = Record<string, object>;
const settings = ({ engine: own, ...others }: Settings = {}) => ({
  engine: { url: engine.url, kind: 'mondrian', ...own },
  ...others,
});

beforeEach(async () => {
  // Entries outlive a reload, and some tests ask the same.
  await send(gateway.url, {
    path: '/mdx/xmla/clearCache',
    headers: { authorization: basic('ADMIN') },
  });
  await gateway.reload(settings());
  engine.answerWith(sendXml(mddatasetAnswer()));
});

const withMember = (formula: string) =>
  `WITH MEMBER [Measures].[t] AS ${formula} SELECT {[Measures].[t]} ON COLUMNS FROM [Sales]`;
const inShop = (statement: string, parameters: readonly Parameter[] = []) =>
  execute({ statement, parameters, properties: { Catalog: 'Shop' } });
const twice = async (body: Buffer) => [
  shortStatus(await askXmla(gateway.url, body)),
  shortStatus(await askXmla(gateway.url, body)),
];
const CACHED = ['miss stored', 'hit'];
const passed = (reason: string) => [`bypass ${reason}`, `bypass ${reason}`];
const UNKNOWN = passed('unknown-function');

const CALLS: readonly (readonly [statement: string, named: string])[] = [
  [withMember("'Today()'"), 'Today'],
  ['SELECT dtAsOfToday([Time].[Time].[Day]) ON 0 FROM [Sales]', 'dtAsOfToday'],
  ['SELECT Assembly.RandomSample({[a].Members}, 5) ON 0 FROM [C]', 'Assembly.RandomSample'],
  ['SELECT [Assembly].[Fn]([a]) ON 0 FROM [C]', 'Assembly.Fn'],
  [withMember('ExcelMDX.Rand()'), 'ExcelMDX.Rand'],
];

describe('a function of which nobody knows', () => {
  test.each(CALLS)('makes %s pass, and is named', async (statement, name) => {
    const body = inShop(statement);
    expect(await twice(body)).toEqual(UNKNOWN);
    const why = `nothing is known of ${name}`;
    const told = gateway.events.findLast(({ type }) => type === 'xmla-answered');
    expect(told).toMatchObject({ why });
    const { text } = await send(gateway.url, {
      method: 'POST',
      path: '/admin/explain?user=alice',
      headers: { authorization: basic('ADMIN'), 'content-type': 'text/xml; charset=utf-8' },
      body,
    });
    expect(JSON.parse(text)).toMatchObject({
      classification: { decision: 'bypass', reason: 'unknown-function', why },
    });
  });

  test('is repeated where the operator says that it is stable', async () => {
    await gateway.reload(settings({ cache: { functions: ['today', 'assembly.fn'] } }));
    const found = [];
    for (const [statement] of CALLS) found.push(await twice(inShop(statement)));
    expect(found).toEqual([CACHED, UNKNOWN, UNKNOWN, CACHED, UNKNOWN]);
    const told = gateway.events.findLast(
      (one) => one.type === 'xmla-answered' && one.outcome.kind === 'hit',
    );
    expect(told).toMatchObject({ why: '' });
    // What was recognised byte by byte is judged anew under another configuration.
    const today = inShop(withMember("'Today()'"));
    for (let hits = 0; hits < 4; hits += 1) expect(await twice(today)).toEqual(['hit', 'hit']);
    await gateway.reload(settings());
    expect(await twice(today)).toEqual(UNKNOWN);
    await gateway.reload(settings({ cache: { functions: ['Today'], volatile: ['today'] } }));
    expect(await twice(today)).toEqual(passed('volatile'));
  });

  test('is repeated in the project that says so, and where no other project is read', async () => {
    const projects = { Shop: { functions: ['Today'] }, Other: {} };
    await gateway.reload(settings({ projects }));
    const today = withMember('Today()');
    expect(await twice(inShop(today))).toEqual(CACHED);
    expect(await twice(execute({ statement: today, properties: { Catalog: 'Other' } }))).toEqual(
      UNKNOWN,
    );
    // The engine chooses the catalog.
    expect(await twice(execute({ statement: today }))).toEqual(UNKNOWN);
    const other = today.replace('FROM [Sales]', 'FROM [Other].[Sales]');
    expect(await twice(inShop(other))).toEqual(UNKNOWN);
  });

  test('leaves no trace in a statement that is volatile', async () => {
    await gateway.reload(settings({ cache: { functions: ['Today'] } }));
    expect(await twice(inShop(withMember('Today() + Now()')))).toEqual(passed('volatile'));
    expect(await twice(inShop(withMember('Other() + Now()')))).toEqual(passed('volatile'));
  });
});

test('any word can be made volatile', async () => {
  const property = inShop(withMember('[Time].LastDay'));
  const call = inShop(withMember('LastDay()'));
  expect(await twice(property)).toEqual(CACHED);
  const cache = { volatile: ['LastDay'], functions: ['LastDay'] };
  await gateway.reload(settings({ cache }));
  expect([await twice(property), await twice(call)]).toEqual([
    passed('volatile'),
    passed('volatile'),
  ]);
});

describe('members that the engine computes', () => {
  const now = [
    inShop('SELECT [Time].[NOW-1] ON 0 FROM [C]'),
    inShop('SELECT [Time].&[NOW] ON 0 FROM [C]'),
    inShop('SELECT {StrToMember(@P, CONSTRAINED)} ON 0 FROM [C]', [
      { name: 'P', type: 'xsd:string', value: '[T].[ now - 1 ]' },
    ]),
    inShop(withMember('Count(Members("[Time].[NOW]"))')),
    discover({
      requestType: 'MDSCHEMA_MEMBERS',
      restrictions: { CATALOG_NAME: 'Shop', MEMBER_UNIQUE_NAME: '[Time].[NOW]' },
    }),
  ];

  test('are asked for each time where the kind of engine is not known', async () => {
    await gateway.reload(settings({ engine: { kind: 'generic' } }));
    for (const body of now) expect(await twice(body)).toEqual(passed('volatile'));
    expect(await twice(inShop('SELECT [Time].[Nowhere] ON 0 FROM [C]'))).toEqual(CACHED);
  });

  test('are names elsewhere', async () => {
    expect(await twice(now[0] as Buffer)).toEqual(CACHED);
    engine.answerWith(sendXml(rowsetAnswer()));
    expect(await twice(now[4] as Buffer)).toEqual(CACHED);
  });
});

describe('a parameter', () => {
  const member = 'SELECT {StrToMember(@P, CONSTRAINED)} ON 0 FROM [C]';
  const valued = (value: string, statement = member) =>
    inShop(statement, [{ name: 'P', type: 'xsd:string', value }]);

  test('is in the key, where it is read as a name alone', async () => {
    expect(await twice(valued('[T].[1997]'))).toEqual(CACHED);
    expect(await twice(valued('[T].[1998]'))).toEqual(CACHED);
  });

  test.each([
    ['volatile', '[T].[1997]', 'SELECT {StrToMember(@P)} ON 0 FROM [C]'],
    ['volatile', '1997', 'SELECT {StrToMember("[T]." + @P, CONSTRAINED)} ON 0 FROM [C]'],
    ['volatile', 'Filter([T].Members, Now() > 1)', member],
    ['unknown-function', 'Today()', member],
  ])('passes (%s): %s in %s', async (reason, value, statement) => {
    expect(await twice(valued(value, statement))).toEqual(passed(reason));
  });
});

describe('texts', () => {
  test.each([
    withMember('IIf([M].[A] > 0, "goes into stock", "none")'),
    withMember(`'IIf([M].[A] > 0, "Now (!)", "none")'`),
    withMember('"stop" + "!"'),
    withMember("'1\r\n+ 2\r\n+ 3'"),
  ])('that nothing reads are texts: %j', async (statement) => {
    expect(await twice(inShop(statement))).toEqual(CACHED);
  });

  test('keep the line ends that stand in them, in the key too', async () => {
    const [first, other] = ['\'"a\r\nb"\'', '\'"a\nb"\''].map(withMember) as [string, string];
    expect(await twice(inShop(first))).toEqual(CACHED);
    expect(await twice(inShop(other))).toEqual(CACHED);
    expect(await twice(inShop(`${other.replace(' FROM', '\r\n FROM')}`))).toEqual(CACHED);
    expect(await twice(inShop(`${other.replace(' FROM', '\n FROM')}\r\n`))).toEqual(['hit', 'hit']);
    expect(await twice(inShop(other.replace('\n', '\r')))).toEqual(passed('unclear-statement'));
  });

  test.each([
    withMember('"Today()"'),
    'WITH SET [s] AS "{Today()}" SELECT [s] ON 0 FROM [C]',
    'SELECT StrToSet("{Today()}") ON 0 FROM [C]',
  ])('that are formulas are searched: %j', async (statement) => {
    expect(await twice(inShop(statement))).toEqual(UNKNOWN);
  });
});

test('one semicolon at the end is of one statement where the engine is SSAS', async () => {
  const ended = inShop('SELECT [a] ON 0 FROM [Sales] ; \n');
  expect(await twice(ended)).toEqual(passed('several-statements'));
  const cubes = { Live: 'off' };
  await gateway.reload(settings({ engine: { kind: 'ssas' }, projects: { Shop: { cubes } } }));
  expect(await twice(ended)).toEqual(CACHED);
  // It is in the key.
  expect(await twice(inShop('SELECT [a] ON 0 FROM [Sales]'))).toEqual(CACHED);
  expect(await twice(inShop('SELECT [a] ON 0 FROM [Sales];;'))).toEqual(
    passed('several-statements'),
  );
  expect(await twice(inShop('SELECT [a] ON 0 FROM [Live];'))).toEqual(passed('cache-off'));
});
