import { randomUUID } from 'node:crypto';

/** One request of a workbook, in its order. */
export interface ExcelRequest {
  readonly body: Buffer;
  readonly soapAction: string;
  /** What is asked, without all that is new for each request; '' for BeginSession and EndSession. */
  readonly question: string;
}

/** The headers of MSOLAP over HTTP. */
export const EXCEL_HEADERS = {
  'user-agent': 'MSOLAP 16.0 RTC',
  'x-transport-caps-negotiation-flags': '0,1,0,1,1',
  accept: '*/*',
} as const;

const XMLA = 'urn:schemas-microsoft-com:xml-analysis';
const VERSION =
  '<Version xmlns="http://schemas.microsoft.com/analysisservices/2003/engine/2" Sequence="922"/>';
const CUBE = 'Sales';

const HIERARCHIES = ['Customer', 'Product', 'Store', 'Time', 'Promotion', 'Gender'];

/** What Excel asks when it opens a workbook with pivot tables and its user works with it: 38 questions, some twice. */
const QUESTIONS: readonly string[] = [
  ...['ProviderVersion', 'DBMSVersion', 'MdpropMdxSubqueries', 'MdpropMdxDrillFunctions'].map(
    (name) => discovered('DISCOVER_PROPERTIES', { PropertyName: name }),
  ),
  discovered('DISCOVER_SCHEMA_ROWSETS', {}),
  discovered('DISCOVER_LITERALS', {}),
  discovered('DISCOVER_KEYWORDS', {}),
  discovered('MDSCHEMA_CUBES', { CATALOG_NAME: 'FoodMart', CUBE_NAME: CUBE }),
  ...[
    'MEASURES',
    'MEASUREGROUPS',
    'MEASUREGROUP_DIMENSIONS',
    'DIMENSIONS',
    'HIERARCHIES',
    'LEVELS',
    'SETS',
    'KPIS',
    'ACTIONS',
    'FUNCTIONS',
  ].map((rowset) =>
    discovered(`MDSCHEMA_${rowset}`, { CATALOG_NAME: 'FoodMart', CUBE_NAME: CUBE }),
  ),
  ...HIERARCHIES.map((name) =>
    discovered('MDSCHEMA_PROPERTIES', {
      CATALOG_NAME: 'FoodMart',
      CUBE_NAME: CUBE,
      HIERARCHY_UNIQUE_NAME: `[${name}]`,
      PROPERTY_TYPE: '1',
    }),
  ),
  ...HIERARCHIES.map((name) =>
    discovered('MDSCHEMA_MEMBERS', {
      CATALOG_NAME: 'FoodMart',
      CUBE_NAME: CUBE,
      LEVEL_UNIQUE_NAME: `[${name}].[(All)]`,
    }),
  ),
  ...HIERARCHIES.map(
    (name) =>
      `SELECT NON EMPTY Hierarchize({DrilldownLevel({[${name}].[All ${name}s]},,,INCLUDE_CALC_MEMBERS)}) DIMENSION PROPERTIES PARENT_UNIQUE_NAME,HIERARCHY_UNIQUE_NAME ON COLUMNS  FROM [${CUBE}] WHERE ([Measures].[Unit Sales]) CELL PROPERTIES VALUE, FORMAT_STRING, LANGUAGE, BACK_COLOR, FORE_COLOR, FONT_FLAGS`,
  ),
  ...['1997', '1998'].map(
    (year) =>
      `SELECT NON EMPTY CrossJoin(Hierarchize({[Product].[All Products].Children}), {[Measures].[Unit Sales],[Measures].[Store Sales]}) DIMENSION PROPERTIES PARENT_UNIQUE_NAME ON COLUMNS  FROM (SELECT ({[Time].[${year}]}) ON COLUMNS  FROM (SELECT ({[Gender].[F]}) ON COLUMNS  FROM [${CUBE}])) CELL PROPERTIES VALUE, FORMAT_STRING, LANGUAGE, BACK_COLOR, FORE_COLOR, FONT_FLAGS`,
  ),
].map((question) => question.trim());

/** The order of one workbook: all questions, and a third of them again, as after Refresh All. */
export const ASKED: readonly string[] = [
  ...QUESTIONS,
  ...QUESTIONS.filter((_, at) => at % 3 === 0),
];

/** How many different questions a workbook asks. */
export const DISTINCT_QUESTIONS = new Set(QUESTIONS).size;

export const GROUPING =
  `CREATE SESSION CUBE [${CUBE}_XL_GROUPING1] FROM [${CUBE}] ( DIMENSION [${CUBE}].[Customer] NOT_RELATED_TO_FACTS FROM [Customer], ` +
  `MEASURE [${CUBE}].[Unit Sales] FROM [Unit Sales] )`;

/** How a workbook begins. */
export function excelBegin(): ExcelRequest {
  return executed('', '<BeginSession xmlns="NS" mustUnderstand="1"/>', '');
}

/** Everything between its beginning and its end. */
export function excelRequests(session: string): readonly ExcelRequest[] {
  return ASKED.map((question) => excelRequest(question, session));
}

/** A statement that is no query, in its session. */
export function excelStatement(statement: string, session: string): ExcelRequest {
  return executed(statement, inSession(session), statement);
}

export function excelEnd(session: string): ExcelRequest {
  return executed('', `<EndSession xmlns="NS" mustUnderstand="1" SessionId="${session}"/>`, '');
}

/** One of the questions, or another statement. */
export function excelRequest(question: string, session: string): ExcelRequest {
  if (!question.startsWith('<')) return executed(question, inSession(session), question);
  const properties = propertyList('<Content>SchemaData</Content><Format>Tabular</Format>');
  return {
    body: envelope(inSession(session), `<Discover xmlns="NS">${question}${properties}</Discover>`),
    soapAction: `"${XMLA}:Discover"`,
    question,
  };
}

function executed(statement: string, session: string, question: string): ExcelRequest {
  const text = statement.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
  const properties = propertyList('<AxisFormat>TupleFormat</AxisFormat><Format>Native</Format>');
  const method = `<Execute xmlns="NS"><Command><Statement>${text}</Statement></Command>${properties}</Execute>`;
  return { body: envelope(session, method), soapAction: `"${XMLA}:Execute"`, question };
}

function discovered(requestType: string, restrictions: Readonly<Record<string, string>>): string {
  const list = Object.entries(restrictions).map(([name, value]) => `<${name}>${value}</${name}>`);
  return `<RequestType>${requestType}</RequestType><Restrictions><RestrictionList>${list.join('')}</RestrictionList></Restrictions>`;
}

const inSession = (id: string) => `<Session xmlns="NS" mustUnderstand="1" SessionId="${id}"/>`;

/** Half of it is new for every request or workbook. */
function propertyList(special: string): string {
  return (
    `<Properties><PropertyList><Catalog>FoodMart</Catalog>${special}<LocaleIdentifier>1031</LocaleIdentifier>` +
    `<ShowHiddenCubes>true</ShowHiddenCubes><DbpropMsmdFlattened2>false</DbpropMsmdFlattened2>` +
    `<ClientProcessID>${String(Math.trunc(Math.random() * 32_768))}</ClientProcessID>` +
    `<SspropInitAppName>Microsoft Office</SspropInitAppName><SspropInitWsid>${randomUUID()}</SspropInitWsid>` +
    `<DbpropMsmdActivityID>${randomUUID()}</DbpropMsmdActivityID><DbpropMsmdRequestID>${randomUUID()}</DbpropMsmdRequestID>` +
    `<DbpropMsmdCurrentActivityID>${randomUUID()}</DbpropMsmdCurrentActivityID></PropertyList></Properties>`
  );
}

function envelope(session: string, method: string): Buffer {
  return Buffer.from(
    `<Envelope xmlns="http://schemas.xmlsoap.org/soap/envelope/"><Header>${session}${VERSION}</Header><Body>${method}</Body></Envelope>`.replaceAll(
      '"NS"',
      `"${XMLA}"`,
    ),
  );
}
