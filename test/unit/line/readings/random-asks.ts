import type { IncomingHttpHeaders } from 'node:http';
import type { EngineKind } from '../../../../src/common/engine-kinds.ts';
import { principalOf } from '../../../../src/common/principal.ts';
import { type Circumstances, circumstancesOf } from '../../../../src/line/circumstances.ts';
import { type ChosenEngine, destinationOf } from '../../../../src/line/understand.ts';
import { discover, execute, type SessionSpec } from '../../../support/envelopes.ts';

/** One request: an index into the values of each dimension. */
export type Ask = Readonly<Record<Dimension, number>>;

const SESSIONS: readonly (SessionSpec | undefined)[] = [
  undefined,
  { kind: 'begin' },
  { kind: 'in', id: 'qy3p8o1v5zk2' },
  { kind: 'in', id: 'ab12cd34ef56' },
  { kind: 'end', id: 'qy3p8o1v5zk2' },
];
const SECURITY =
  '<wsse:Security xmlns:wsse="http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-wssecurity-secext-1.0.xsd"/>';

/** What clients send in all ways that the gateway tells apart, and in some that it does not. */
const VALUES = {
  statement: [
    'SELECT FROM [Sales]',
    'SELECT FROM [Other]',
    'SELECT FROM [Sales];',
    'SELECT LastDay() ON 0 FROM [Sales]',
    'SELECT [Time].[NOW-1] ON 0 FROM [Sales]',
    "SELECT FROM [S'\u00E9]",
    'DRILLTHROUGH SELECT FROM [Sales]',
    'UPDATE CUBE [Sales] SET ([A]) = 1',
    'DBSCHEMA_CATALOGS',
    'MDSCHEMA_CUBES',
  ],
  session: SESSIONS,
  activity: [
    undefined,
    '0f8fad5b-d9cb-469f-a165-70867728950e',
    '7c9e6679-7425-40de-944b-e07fc1f90ae7',
  ],
  catalog: [undefined, 'FoodMart', 'HR'],
  identity: [
    '',
    '<EffectiveUserName>bob</EffectiveUserName>',
    '<EffectiveUserName></EffectiveUserName>',
  ],
  security: ['', SECURITY],
  form: ['utf-8', 'latin1', 'utf-16', 'undeclared'],
  engine: ['one', 'two'],
  kind: ['generic', 'mondrian', 'emondrian', 'kylin', 'ssas'],
  login: ['forward', 'service'],
  headers: [[], ['x-tenant'], ['accept-language', 'x-tenant']],
  delegation: ['refuse', 'forward'],
  volatile: [[], ['lastday']],
  project: [undefined, 'p', 'P', 'q'],
  search: ['', 'a=1', 'a=1&b=2', 'b=2&a=1', '%61=1', 'a=1&userid=bob'],
  contentType: [
    ...['text/xml', 'TEXT/XML', 'text/xml; charset=utf-8', 'text/xml;charset="UTF-8"'],
    ...['text/xml; charset=iso-8859-1', 'text/xml; charset=utf-16', 'application/xml'],
    ...['application/json', 'text/xml; a=b', undefined],
  ],
  soapAction: [
    ...[undefined, '', '"urn:schemas-microsoft-com:xml-analysis:Execute"'],
    ...[
      'urn:schemas-microsoft-com:xml-analysis#Execute',
      '"urn:schemas-microsoft-com:xml-analysis:Discover"',
    ],
    ...[['a', 'b'], 'other'],
  ],
  accept: [
    undefined,
    '*/*',
    'text/xml',
    'text/html, application/xml',
    'application/json',
    'text/xml;q=0',
  ],
  userAgent: [undefined, 'MSOLAP 16.0 RTC', 'MSOLAP 15.0', 'XmlaClient', 'curl/8'],
  tenant: [undefined, 'A', 'B', 'A, B'],
  connection: [undefined, 'close', 'x-tenant'],
  sessionHeader: [
    ...[{}, { 'x-as-sessionid': 'qy3p8o1v5zk2' }, { 'x-as-sessionid': 'a,b' }],
    ...[{ x_as_sessionid: 'other' }, { 'x-as-sessionid': '' }],
  ],
  token: [{}, { 'x-as-getsessiontoken': '1' }, { x_as_getsessiontoken: '' }],
  /** Of a call or a login: these count for nothing that is understood. */
  call: [{}, { 'x-request-id': '1' }, { authorization: 'Basic YTpi', cookie: 'a=b' }],
} as const;

export type Dimension = keyof typeof VALUES;
const DIMENSIONS = Object.keys(VALUES) as readonly Dimension[];
type Random = (below: number) => number;

export const USUAL = Object.fromEntries(DIMENSIONS.map((name) => [name, 0])) as Ask;

/** Another value in one dimension, or in some. */
export function changed(ask: Ask, random: Random, dimensions = DIMENSIONS): Ask {
  const other: Record<Dimension, number> = { ...ask };
  for (let left = 1 + random(2); left > 0; left -= 1) {
    const name = dimensions[random(dimensions.length)] ?? 'form';
    other[name] = random(VALUES[name].length);
  }
  return other;
}

const valueOf = <D extends Dimension>(ask: Ask, name: D) =>
  VALUES[name][ask[name]] as (typeof VALUES)[D][number];

export function bodyOf(ask: Ask): Buffer {
  const statement = valueOf(ask, 'statement');
  const [activity, catalog, session] = (['activity', 'catalog', 'session'] as const).map((name) =>
    valueOf(ask, name),
  ) as [string | undefined, string | undefined, SessionSpec | undefined];
  const spec = {
    properties: {
      ...(catalog !== undefined && { Catalog: catalog }),
      ...(activity !== undefined && { DbpropMsmdActivityID: activity }),
    },
    ...(session && { session }),
  };
  const plain = /^[A-Z_]+$/.test(statement)
    ? discover({ requestType: statement, ...spec })
    : execute({ statement, ...spec });
  const security = valueOf(ask, 'security');
  const text = plain
    .toString()
    .replace('</PropertyList>', `${valueOf(ask, 'identity')}$&`)
    .replace(/<\/[\w-]+:Header>/, `${security}$&`);
  const form = valueOf(ask, 'form');
  const declared = text.replace('UTF-8', form === 'latin1' ? 'ISO-8859-1' : 'UTF-16');
  if (form === 'latin1') return Buffer.from(declared, 'latin1');
  if (form === 'utf-16') return Buffer.from(`\uFEFF${declared}`, 'utf16le');
  return Buffer.from(form === 'utf-8' ? text : text.replace(/^<\?.*\?>\n/, ''));
}

export function circumstancesFor(ask: Ask): Circumstances {
  const value = <D extends Dimension>(name: D) => valueOf(ask, name);
  const headers = {
    'content-type': value('contentType'),
    soapaction: value('soapAction'),
    accept: value('accept'),
    'user-agent': value('userAgent'),
    'x-tenant': value('tenant'),
    connection: value('connection'),
    ...value('sessionHeader'),
    ...value('token'),
    ...value('call'),
  };
  const given = Object.entries(headers).filter(([, one]) => one !== undefined);
  const engine = {
    engine: { id: value('engine'), tellsProject: true },
    settings: {
      kind: value('kind') as EngineKind,
      login: value('login'),
      headers: value('headers'),
      delegation: value('delegation'),
    },
    volatile: value('volatile'),
  } as unknown as ChosenEngine;
  const address = { project: value('project'), search: value('search') };
  const destination = destinationOf(engine, address, principalOf('alice'), 'Basic YTpi');
  return circumstancesOf(Object.fromEntries(given) as IncomingHttpHeaders, destination);
}
