import * as fc from 'fast-check';
import { discover, execute } from './envelopes.ts';
import { IGNORED } from './forwarded.ts';
import { asToolkit, toolkit } from './toolkits.ts';

const XMLA = 'urn:schemas-microsoft-com:xml-analysis';
const AS = 'http://schemas.microsoft.com/analysisservices';
const BLOCKS = [
  `<Version xmlns="${AS}/2003/engine/2" Sequence="400"/>`,
  `<Version xmlns="${AS}/2003/engine/2" Sequence="500"/>`,
  `<Version xmlns="${AS}/2010/engine/2" Sequence="400"/>`,
  `<NamespaceCompatibility xmlns="${AS}/2003/xmla" mustUnderstand="0"/>`,
  `<ProtocolCapabilities xmlns="${AS}/2003/engine"><Capability>sx</Capability></ProtocolCapabilities>`,
  `<ProtocolCapabilities xmlns="${AS}/2003/engine"><Capability>sx</Capability><Capability>xpress</Capability></ProtocolCapabilities>`,
];

const anyHeader = fc.record({
  accept: fc.constantFrom(
    ...['text/xml', '*/*', 'text/xml, */*', 'application/xml;q=0.5', 'image/png'],
    ...['application/soap+xml', 'application/json, text/xml', 'text/xml;q=0'],
  ),
  'user-agent': fc.constantFrom(
    ...['MSOLAP 1', 'MSOLAP/2', 'Java/17', 'curl', '', 'Olap4j(1.2.0)', 'gSOAP/2.8'],
    ...['ADOMD.NET', 'XmlaClient', 'MicroStrategy/9', 'Apache-HttpClient/4', 'msolap'],
  ),
  'content-type': fc.constantFrom(
    ...['text/xml', 'text/xml; charset=utf-8', 'text/xml;charset="utf-8"', 'application/xml'],
    ...['TEXT/XML; Charset=UTF-8', 'text/xml; charset=utf8', 'text/xml; charset=utf-16'],
  ),
  soapaction: fc.constantFrom(
    ...['', `"${XMLA}:Execute"`, `${XMLA}:Execute`, `"${XMLA}:Discover"`],
    ...[`"${XMLA}#Execute"`, `${XMLA}#Execute`, `"${XMLA}#Discover"`],
  ),
  cookie: fc.constantFrom('a=1', 'JSESSIONID=2', 'MDXAUTH=bob'),
  gatewayauth: fc.constantFrom('bob'),
  'x-forwarded-user': fc.constantFrom('bob'),
  'x-forwarded-groups': fc.constantFrom('admins'),
  'x-transport-caps-negotiation-flags': fc.constantFrom('0,1,0,1,1', '1,1,1,1,1'),
  'accept-language': fc.constantFrom('de', 'en'),
  'accept-charset': fc.constantFrom('utf-8', 'iso-8859-1'),
  'accept-encoding': fc.constantFrom('gzip', 'identity'),
  'x-as-activityid': fc.constantFrom('1', '2'),
  'x-as-requestid': fc.constantFrom('1', '2'),
  'x-as-getsessiontoken': fc.constantFrom('1'),
  'x-other': fc.constantFrom('1', '2'),
  'x-tenant': fc.constantFrom('A', 'B', 'a', ''),
  x_tenant: fc.constantFrom('A', 'B'),
  connection: fc.constantFrom('close', 'keep-alive', 'close, accept', 'close, x-tenant'),
});

type Headers = Partial<typeof anyHeader extends fc.Arbitrary<infer T> ? T : never>;
/** A few of them at one time: with all, hardly a request could be cached. */
const header = fc
  .tuple(anyHeader, fc.infiniteStream(fc.nat({ max: 5 })))
  .map(([all, chances]): Headers => {
    const kept = Object.entries(all).filter(() => chances.next().value === 0);
    return Object.fromEntries(kept);
  });

const parameter = fc.constantFrom(
  ...['a=1', 'a=2', 'A=1', 'b', 'b=', '%61=1', ''],
  ...['username=x', 'USERID=1', '%70assword=1', 'user%4Eame=bob'],
);
const properties = fc.dictionary(
  fc.constantFrom(
    ...['Catalog', 'Format', 'LocaleIdentifier', 'AxisFormat', 'format', 'timeout'],
    ...IGNORED,
  ),
  fc.constantFrom<string[]>('1', '2', ''),
  { maxKeys: 4 },
);
/** The same names, some with other values. */
const otherValues = fc.infiniteStream(fc.constantFrom('1', '2', '', '3600', undefined));

const execution = fc.record({
  method: fc.constant('Execute' as const),
  statement: fc.constantFrom('SELECT FROM [S#]', 'select FROM [S#]', ' SELECT FROM [S#]\r\n'),
  parameters: fc.uniqueArray(
    fc.record({
      name: fc.constantFrom('p', 'q'),
      type: fc.constantFrom('', 'xsd:string', 'xsd:int'),
      value: fc.constantFrom('1', '2'),
    }),
    { maxLength: 2, selector: ({ name }) => name },
  ),
});
const told = fc.record({
  method: fc.constant('Discover' as const),
  requestType: fc.constant('DISCOVER_PROPERTIES'),
  restrictions: fc.array(
    fc.record({
      name: fc.constantFrom(
        ...(['PropertyName', 'PropertyName', 'PropertyName', 'propertyname'] as const),
      ),
      form: fc.constantFrom('plain' as const, 'plain' as const, 'value' as const),
      values: fc.array(
        fc.constantFrom(
          'ProviderVersion',
          'Format',
          'Timeout',
          ' timeout ',
          'Ｔimeout',
          ...IGNORED,
        ),
        { minLength: 1, maxLength: 2 },
      ),
    }),
    { maxLength: 2 },
  ),
});
const discovery = fc.record({
  method: fc.constant('Discover' as const),
  requestType: fc.constantFrom('MDSCHEMA_CUBES', 'MDSCHEMA_LEVELS', 'DBSCHEMA_CATALOGS'),
  restrictions: fc.array(
    fc.record({
      name: fc.constantFrom('CATALOG_NAME', 'CUBE_NAME'),
      form: fc.constantFrom('plain' as const, 'value' as const),
      values: fc.array(fc.constantFrom('x', 'y'), { minLength: 1, maxLength: 2 }),
    }),
    { maxLength: 2 },
  ),
});

const TYPED = { typed: ['Catalog'], type: 'xsd:string', nil: false };
const NIL = { typed: [], type: '', nil: true };
/** Several sessions of each user, so that equal ones meet. */
export const SLOTS = [
  { user: 'alice', properties: {} },
  { user: 'alice', properties: {}, headers: { 'x-tenant': 'A' } },
  { user: 'alice', properties: { Catalog: '1' } },
  { user: 'alice', properties: { Timeout: '7', Catalog: '1' } },
  { user: 'alice', properties: { Catalog: '1' }, toolkit: TYPED },
  { user: 'bob', properties: { Catalog: '1', Format: '' }, toolkit: NIL },
  { user: 'bob', properties: { Catalog: '1', Format: '' } },
  // SSAS keeps it for the whole session.
  { user: 'alice', properties: { DbpropMsmdSubqueries: '2', Catalog: '1' } },
  { user: 'bob', properties: { Timeout: '8', Catalog: '1' } },
  { user: 'bob', properties: { Catalog: '1', ClientProcessID: '9' } },
  { user: 'bob', properties: { Catalog: '2' } },
  { user: 'bob', properties: {}, headers: { 'x-tenant': 'B', x_tenant: 'A' } },
  { user: 'bob', properties: {} },
] as const;

const request = fc.record({
  user: fc.constantFrom('alice' as const, 'bob' as const),
  project: fc.constantFrom('', '/p', '/P', '/%70', '/q%2Fp'),
  search: fc.array(parameter, { maxLength: 3 }).map((list) => list.join('&')),
  headers: header,
  properties,
  question: fc.oneof(
    { weight: 6, arbitrary: execution },
    { weight: 2, arbitrary: discovery },
    { weight: 1, arbitrary: told },
  ),
  blocks: fc.subarray(BLOCKS, { maxLength: 2 }),
  toolkit: fc.option(toolkit, { freq: 3 }),
  prefix: fc.constantFrom('SOAP-ENV', 's', ''),
  coding: fc.constantFrom('utf-8', 'utf-8', 'utf-8', 'plain utf-8', 'utf-8 with mark', 'utf-16'),
  session: fc.option(
    fc.record({
      slot: fc.nat({ max: SLOTS.length - 1 }),
      by: fc.constantFrom('understood', 'understood', 'plain', 'prefixed', 'header', 'both'),
    }),
    { freq: 3 },
  ),
});
/** What is asked, by whom, and how it is put. */
export type Asked = typeof request extends fc.Arbitrary<infer T> ? T : never;

/** A request, and the same with one thing changed; of the headers only one, which may also come or go. */
export const requestPair = fc
  .tuple(
    request,
    request,
    fc.constantFrom(
      ...(['user', 'project', 'search', 'headers', 'properties', 'question', 'blocks'] as const),
      ...([
        'toolkit',
        'toolkit',
        'prefix',
        'coding',
        'session',
        'session',
        'values',
        'values',
      ] as const),
    ),
    fc.nat(),
    otherValues,
  )
  .map(([first, other, changed, which, values]): readonly Asked[] => {
    if (changed === 'values') {
      const changedValues = Object.entries(first.properties).map(([name, value]) => [
        name,
        IGNORED.includes(name) ? (values.next().value ?? value) : value,
      ]);
      return [first, { ...first, properties: Object.fromEntries(changedValues) }];
    }
    if (changed !== 'headers') return [first, { ...first, [changed]: other[changed] }];
    const names = [
      ...new Set([...Object.keys(first.headers), ...Object.keys(other.headers)]),
    ] as (keyof Asked['headers'])[];
    const name = names[which % Math.max(1, names.length)];
    if (name === undefined) return [first, first];
    const { [name]: _left, ...headers } = first.headers;
    const one = other.headers[name];
    return [
      first,
      { ...first, headers: { ...headers, ...(one !== undefined && { [name]: one }) } },
    ];
  });

/**
 * The bytes of a request.
 * @param cube a number that stands in the question
 * @param id of the session, if it names one
 */
export function bodyOf(asked: Asked, cube: number, id: string | undefined): Buffer {
  const { question, prefix, blocks, session } = asked;
  const common = { properties: asked.properties, prefix };
  const plain =
    question.method === 'Execute'
      ? execute({
          ...common,
          statement: question.statement.replace('#', ` ${cube}`),
          parameters: question.parameters,
        })
      : discover({
          ...common,
          ...question,
          restrictions: [
            ...question.restrictions,
            // DISCOVER_PROPERTIES knows no cubes.
            question.requestType === 'DISCOVER_PROPERTIES'
              ? { name: 'PropertyName', form: 'plain', values: [`Own${cube}`] }
              : { name: 'CUBE_NAME', form: 'plain', values: [`${cube}`] },
          ],
        });
  const mark = prefix === '' ? '' : `${prefix}:`;
  const understand = {
    understood: ' mustUnderstand="1"',
    both: ' mustUnderstand="1"',
    prefixed: mark === '' ? ' mustUnderstand="1"' : ` ${mark}mustUnderstand="1"`,
    plain: '',
    header: undefined,
  }[session?.by ?? 'header'];
  const element =
    id === undefined || understand === undefined
      ? ''
      : `<Session xmlns="${XMLA}"${understand} SessionId="${id}"/>`;
  const inside = element + blocks.join('');
  const text = (asked.toolkit === null ? plain : asToolkit(plain, asked.toolkit))
    .toString()
    .replace(`<${mark}Body>`, inside === '' ? '$&' : `<${mark}Header>${inside}</${mark}Header>$&`);
  if (asked.coding === 'utf-16') {
    return Buffer.from(`\uFEFF${text.replace('encoding="UTF-8"', 'encoding="UTF-16"')}`, 'utf16le');
  }
  return Buffer.from(asked.coding === 'utf-8 with mark' ? `\uFEFF${text}` : text);
}
