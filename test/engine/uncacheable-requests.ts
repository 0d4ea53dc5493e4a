import { XMLA_NAMESPACE, discover, envelope, execute, executeCommand } from './envelope.ts';
import { MULTIDIMENSIONAL, TABULAR, named, properties } from './request.ts';
import type { BypassedRequest, NamedRequest, RefusedRequest } from './request.ts';
import type { ExecuteOptions, PropertyList, XmlaMessage } from './envelope.ts';
import type { BypassReason, RefusalReason } from '../../src/common/reasons.ts';

const HARMLESS = 'SELECT {[Measures].[Units]} ON 0 FROM [Sales]';

const PROPERTIES = properties('Bazaar', MULTIDIMENSIONAL);

const mdx = (statement: string, options: ExecuteOptions = {}): XmlaMessage =>
  execute(statement, { properties: PROPERTIES, ...options });

const withProperties = (more: PropertyList): XmlaMessage =>
  mdx(HARMLESS, { properties: [...PROPERTIES, ...more] });

const header = (content: string): XmlaMessage => mdx(HARMLESS, { header: content });

const bypassed = (
  reason: BypassReason,
  name: string,
  message: XmlaMessage,
  headers: NamedRequest['headers'] = {},
): BypassedRequest => named(name, message, { reason }, headers);

const refused = (reason: RefusalReason, name: string, message: XmlaMessage): RefusedRequest =>
  named(name, message, { reason });

/** Mondrian looks for the attribute mustUnderstand without a prefix, and ignores headers that lack it. */
const session = (element: string, attributes = ''): string =>
  `<XA:${element} xmlns:XA="${XMLA_NAMESPACE}" mustUnderstand="1"${attributes}/>`;

const SESSION_ID = ' SessionId="0123456789abcdef"';

const WS_SECURITY = `<wsse:Security xmlns:wsse="http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-wssecurity-secext-1.0.xsd" mustUnderstand="1"><wsse:UsernameToken><wsse:Username>ann</wsse:Username><wsse:Password Type="http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-username-token-profile-1.0#PasswordText">secret</wsse:Password></wsse:UsernameToken></wsse:Security>`;

const rewritten = (message: XmlaMessage, change: (body: string) => string): XmlaMessage => ({
  ...message,
  body: change(message.body),
});

/** Requests that are passed to the engine without a look into the cache, each for exactly one reason. */
export const BYPASSED_REQUESTS: readonly BypassedRequest[] = [
  bypassed('session', 'Begins a session', header(session('BeginSession'))),
  bypassed(
    'unknown-session',
    'In a session that nobody began',
    header(session('Session', SESSION_ID)),
  ),
  bypassed(
    'unknown-session',
    'Ends a session that nobody began',
    header(session('EndSession', SESSION_ID)),
  ),
  bypassed(
    'session',
    'Begins a session with a Discover',
    discover('MDSCHEMA_CUBES', {
      properties: properties('Bazaar'),
      header: session('BeginSession'),
    }),
  ),
  bypassed('security', 'With WS-Security', header(WS_SECURITY)),

  bypassed(
    'drillthrough',
    'Drills through',
    mdx(
      'DRILLTHROUGH MAXROWS 10 SELECT {[Measures].[Units]} ON 0 FROM [Sales] WHERE ([Time].[2024].[Q1].[Jan].[1])',
      { properties: properties('Bazaar', TABULAR) },
    ),
  ),
  bypassed('system-rowset', 'Reads a system rowset', mdx('SELECT * FROM $SYSTEM.MDSCHEMA_CUBES')),
  bypassed(
    'volatile',
    'Asks for the time',
    mdx('WITH MEMBER [Measures].[T] AS Now() SELECT {[Measures].[T]} ON 0 FROM [Sales]'),
  ),
  bypassed(
    'volatile',
    'Asks for the time in a quoted formula',
    mdx(
      'WITH MEMBER [Measures].[T] AS \'Format(Now(), "yyyy-mm-dd")\' SELECT {[Measures].[T]} ON 0 FROM [Sales]',
    ),
  ),
  bypassed(
    'volatile',
    'Asks for the time in small letters',
    mdx('with member measures.t as nOW( ) select {measures.t} on 0 from sales', { cdata: true }),
  ),
  bypassed(
    'volatile',
    'Asks for today',
    mdx(
      'WITH MEMBER [Measures].[D] AS \'CurrentDateString("[yyyy]")\' SELECT {[Measures].[D]} ON 0 FROM [Sales]',
    ),
  ),
  bypassed(
    'volatile',
    'Asks for a member of today',
    mdx('SELECT {CurrentDateMember([Time], \'["Time"].[yyyy]\', BEFORE)} ON 0 FROM [Sales]'),
  ),
  bypassed(
    'volatile',
    'Throws dice',
    mdx('WITH MEMBER [Measures].[R] AS Rnd() SELECT {[Measures].[R]} ON 0 FROM [Sales]'),
  ),
  bypassed(
    'volatile',
    'Asks who is there',
    mdx('WITH MEMBER [Measures].[W] AS UserName SELECT {[Measures].[W]} ON 0 FROM [Sales]'),
  ),
  bypassed(
    'volatile',
    'Has a parameter',
    mdx(
      'WITH MEMBER [Measures].[P] AS Parameter("P", NUMERIC, 3) SELECT {[Measures].[P]} ON 0 FROM [Sales]',
    ),
  ),
  bypassed('no-cache-comment', 'Says #NoCache', mdx(`/* #NoCache */ ${HARMLESS}`)),
  bypassed('several-statements', 'Two statements', mdx(`${HARMLESS}; ${HARMLESS}`)),

  bypassed(
    'not-a-query',
    'An empty statement',
    executeCommand('<Statement/>', { properties: PROPERTIES }),
  ),
  bypassed('not-a-query', 'Only a comment', mdx('-- SELECT FROM [Sales]')),
  bypassed(
    'not-a-query',
    'Creates a session member',
    mdx("CREATE SESSION MEMBER [Sales].[Measures].[Twice] AS '[Measures].[Units] * 2'"),
  ),
  bypassed('not-a-query', 'Drops a set', mdx('DROP SET [Sales].[Best Products]')),
  bypassed(
    'not-a-query',
    'Writes back',
    mdx('UPDATE CUBE [Sales] SET ([Measures].[Units], [Time].[2024]) = 5'),
  ),
  bypassed('not-a-query', 'A bare assignment', mdx('[Measures].AllMembers = NULL')),
  bypassed('not-a-query', 'Explains', mdx(`EXPLAIN PLAN FOR ${HARMLESS}`)),
  bypassed('not-a-query', 'Refreshes a cube', mdx('REFRESH CUBE [Sales]')),
  bypassed('not-a-query', 'Asks in DAX', mdx("EVALUATE 'Sales'")),
  bypassed(
    'not-a-query',
    'A command that is no statement',
    executeCommand('<ClearCache><Object><DatabaseID>Bazaar</DatabaseID></Object></ClearCache>', {
      properties: PROPERTIES,
    }),
  ),

  bypassed(
    'identity-property',
    'In the name of another',
    withProperties([['EffectiveUserName', 'ann']]),
  ),
  bypassed('identity-property', 'With the rights of a role', withProperties([['Roles', 'Greece']])),
  bypassed('identity-property', 'With custom data', withProperties([['CustomData', 'ann']])),
  bypassed(
    'duplicate-property',
    'A property named twice',
    withProperties([['Catalog', 'BazaarTest']]),
  ),
  bypassed('real-time', 'In real time', withProperties([['RealTimeOlap', 'true']])),

  bypassed('discover-type', 'Sessions', discover('DISCOVER_SESSIONS')),
  bypassed('discover-type', 'Connections', discover('DISCOVER_CONNECTIONS')),
  bypassed('discover-type', 'Commands', discover('DISCOVER_COMMANDS')),
  bypassed(
    'discover-type',
    'All server properties',
    discover('DISCOVER_PROPERTIES', { properties: properties('Bazaar') }),
  ),
  bypassed(
    'discover-type',
    'A property of which each client has its own value',
    discover('DISCOVER_PROPERTIES', {
      restrictions: [['PropertyName', 'Timeout']],
      properties: [['Timeout', '300']],
    }),
  ),
  bypassed(
    'discover-type',
    'A type of one engine',
    discover('DBSCHEMA_TABLES_INFO', { properties: properties('Bazaar') }),
  ),

  bypassed(
    'malformed',
    'Ends too early',
    rewritten(mdx(HARMLESS), (body) => body.slice(0, -10)),
  ),
  bypassed(
    'malformed',
    'A bare ampersand',
    rewritten(mdx(HARMLESS), (body) => body.replace('[Units]', '[A & B]')),
  ),
  bypassed('unknown-shape', 'No envelope', {
    ...mdx(HARMLESS),
    body: `<Discover xmlns="${XMLA_NAMESPACE}"/>`,
  }),
  bypassed(
    'encoding',
    'An encoding nobody knows',
    rewritten(mdx(HARMLESS), (body) => body.replace('UTF-8', 'x-nobody')),
  ),
  bypassed(
    'unknown-shape',
    'An element nobody knows',
    envelope(
      'Execute',
      `<Command><Statement>${HARMLESS}</Statement></Command><Properties><PropertyList/></Properties><Hint/>`,
    ),
  ),
  bypassed(
    'unknown-shape',
    'A processing instruction',
    rewritten(mdx(HARMLESS), (body) => body.replace('<Command>', '<?cache no?><Command>')),
  ),
  bypassed('soap-action', 'Calls itself a Discover', {
    ...mdx(HARMLESS),
    soapAction: `"${XMLA_NAMESPACE}:Discover"`,
  }),
  bypassed('accept', 'Asks for JSON', mdx(HARMLESS), { accept: 'application/json' }),
  bypassed('content-type', 'More than a media type', mdx(HARMLESS), {
    'content-type': 'text/xml; charset=UTF-8; action="urn:x"',
  }),
];

const FAILING =
  'WITH MEMBER [Measures].[Bad] AS Mid("abc", -1, 2) SELECT {[Measures].[Units], [Measures].[Bad]} ON 0 FROM [Sales]';

/** Requests like any other, to which the engine answers what must not be stored. */
export const REFUSED_REQUESTS: readonly RefusedRequest[] = [
  refused('fault', 'A query of a cube that is not there', mdx('SELECT FROM [Nowhere]')),
  refused(
    'fault',
    'A member that is not there',
    mdx('SELECT {[Measures].[Nothing]} ON 0 FROM [Sales]'),
  ),
  refused('fault', 'A syntax error', mdx('SELECT ON ON FROM')),
  refused(
    'fault',
    'A catalog that is not there',
    execute(HARMLESS, {
      properties: [
        ['DataSourceInfo', 'Bazaar'],
        ['Catalog', 'Nowhere'],
      ],
    }),
  ),
  refused(
    'fault',
    'A Discover in a format of Execute',
    discover('MDSCHEMA_CUBES', {
      properties: properties('Bazaar', [
        ['Format', 'Multidimensional'],
        ['Content', 'Nonsense'],
      ]),
    }),
  ),
  refused('error-cell', 'A formula that fails', mdx(FAILING)),
  // Without formatted values nothing starts with #ERR: the value is the text of a Java exception.
  refused(
    'error-cell',
    'A formula that fails, as a table',
    mdx(FAILING, { properties: properties('Bazaar', TABULAR) }),
  ),
  refused(
    'error-cell',
    'A formula that fails, values only',
    mdx(`${FAILING} CELL PROPERTIES VALUE`),
  ),
  // In a table, Mondrian makes element names of members, and lets an ampersand stand in them.
  refused(
    'not-well-formed',
    'A column name with an ampersand',
    mdx(
      'SELECT [Customer].[Segment].Members ON 0, [Geography].[Country].Members ON 1 FROM [Sales]',
      {
        properties: properties('Bazaar', TABULAR),
      },
    ),
  ),
  refused(
    'media-type',
    'An answer in JSON',
    withProperties([['ResponseMimeType', 'application/json']]),
  ),
];
