/**
 * Sample answers of XMLA engines, as text. The frames follow three engines: `mondrian` (prefixed elements, an
 * empty header, an XML declaration), `ssas` (default namespaces, no declaration) and `kylin` (Mondrian's
 * frame with a declared UTF-8).
 */

export type AnswerStyle = 'mondrian' | 'ssas' | 'kylin';

export interface FrameOptions {
  readonly style?: AnswerStyle;
  /** The name in the XML declaration; '' leaves the declaration out. */
  readonly encoding?: string;
  /** What stands inside the SOAP header; undefined for the style's own. */
  readonly header?: string;
}

const SOAP = 'http://schemas.xmlsoap.org/soap/envelope/';
const XMLA = 'urn:schemas-microsoft-com:xml-analysis';
const XSI = 'http://www.w3.org/2001/XMLSchema-instance';
const XSD = 'http://www.w3.org/2001/XMLSchema';

export const SESSION_HEADER = `<Session xmlns="${XMLA}" SessionId="3a7f-20260101"/>`;

/** Puts content into the envelope of an engine: what stands inside the SOAP body. */
export function envelope(body: string, options: FrameOptions = {}): string {
  const { style = 'mondrian' } = options;
  if (style === 'ssas') {
    const { encoding = '', header } = options;
    const head = header === undefined ? '' : `<soap:Header>${header}</soap:Header>`;
    return `${declaration(encoding)}<soap:Envelope xmlns:soap="${SOAP}">${head}<soap:Body>${body}</soap:Body></soap:Envelope>`;
  }
  const { encoding = 'UTF-8', header = '' } = options;
  return `${declaration(encoding)}<SOAP-ENV:Envelope xmlns:SOAP-ENV="${SOAP}" SOAP-ENV:encodingStyle="http://schemas.xmlsoap.org/soap/encoding/">
<SOAP-ENV:Header>${header}</SOAP-ENV:Header>
<SOAP-ENV:Body>
${body}
</SOAP-ENV:Body>
</SOAP-ENV:Envelope>
`;
}

/** Puts the content of `root` into the response of a method. `kind` is the last part of root's namespace. */
export function response(
  method: 'Discover' | 'Execute',
  kind: string,
  content: string,
  options: FrameOptions = {},
): string {
  const attributes = `xmlns="${XMLA}:${kind}" xmlns:xsi="${XSI}" xmlns:xsd="${XSD}" xmlns:EX="${XMLA}:exception"`;
  const root = `<root ${attributes}>${content}</root>`;
  const frame =
    options.style === 'ssas'
      ? `<${method}Response xmlns="${XMLA}"><return>${root}</return></${method}Response>`
      : `<cxmla:${method}Response xmlns:cxmla="${XMLA}">\n<cxmla:return>\n${root}\n</cxmla:return>\n</cxmla:${method}Response>`;
  return envelope(frame, options);
}

/** An answer to a Discover of cubes; `names` are the cubes. */
export function rowsetAnswer(
  options: FrameOptions & { readonly names?: readonly string[] } = {},
): string {
  const { names = ['Sales', 'Warehouse'] } = options;
  return response('Discover', 'rowset', ROWSET_SCHEMA + names.map(cubeRow).join(''), options);
}

/** An answer to DISCOVER_PROPERTIES: a name, a description and a value in each row, as they stand in XML. */
export function propertiesAnswer(
  rows: readonly (readonly [name: string, description: string, value: string])[],
  options: FrameOptions = {},
): string {
  const texts = rows.map(
    ([name, description, value]) =>
      `<row><PropertyName>${name}</PropertyName><PropertyDescription>${description}</PropertyDescription><PropertyType>string</PropertyType><PropertyAccessType>ReadWrite</PropertyAccessType><IsRequired>false</IsRequired><Value>${value}</Value></row>`,
  );
  return response('Discover', 'rowset', texts.join('\n'), options);
}

/** An answer to an Execute with as many cells as asked for; `cell` gives what stands inside a Cell. */
export function mddatasetAnswer(
  options: FrameOptions & {
    readonly cells?: number;
    readonly cell?: (ordinal: number) => string;
    readonly members?: readonly string[];
  } = {},
): string {
  const { cells = 2, cell = cellOf, members = ['F', 'M'] } = options;
  const parts = [MDDATASET_SCHEMA, OLAP_INFO, '<Axes><Axis name="Axis0"><Tuples>'];
  for (const name of members) parts.push(tuple(name));
  parts.push('</Tuples></Axis></Axes><CellData>');
  for (let ordinal = 0; ordinal < cells; ordinal++) {
    parts.push(`<Cell CellOrdinal="${ordinal}">${cell(ordinal)}</Cell>`);
  }
  parts.push('</CellData>');
  return response('Execute', 'mddataset', parts.join('\n'), options);
}

/** An answer to an Execute of at least so many bytes in UTF-8, half of it members, half of it cells. */
export function largeMddatasetAnswer(bytes: number, options: FrameOptions = {}): string {
  const members = Math.ceil(bytes / 2 / tuple('Member 00000').length);
  const cells = Math.ceil(bytes / 2 / `<Cell CellOrdinal="00000">${cellOf(100_000)}</Cell>`.length);
  return mddatasetAnswer({
    ...options,
    cells,
    members: Array.from({ length: members }, (_, index) => `Member ${index}`),
  });
}

/** A fault as Mondrian sends it, with status 200. */
export function faultAnswer(options: FrameOptions = {}): string {
  return envelope(
    `<SOAP-ENV:Fault xmlns:SOAP-ENV="${SOAP}"><faultcode>SOAP-ENV:Client.00HSBD01</faultcode><faultstring>XMLA SOAP bad Discover or Execute</faultstring><faultactor>Mondrian</faultactor><detail><XA:error xmlns:XA="http://mondrian.sourceforge.net"><code>00HSBD01</code><desc>The Mondrian XML: cube not found</desc></XA:error></detail></SOAP-ENV:Fault>`,
    options,
  );
}

/** SSAS broke off while it sent the cells, told so, and closed its tags. */
export function brokenOffAnswer(): string {
  const told = `<Exception xmlns="${XMLA}:exception"/><Messages xmlns="${XMLA}:exception"><Error ErrorCode="3238658057" Description="The operation was cancelled." Source="Microsoft SQL Server Analysis Services" HelpFile=""/></Messages>`;
  return mddatasetAnswer({ style: 'ssas' }).replace('</CellData>', `</CellData>${told}`);
}

/** Mondrian could not evaluate the second cell. */
export function errorCellAnswer(options: FrameOptions = {}): string {
  const text = '#ERR: mondrian.olap.fun.MondrianEvaluationException: no such member';
  return mddatasetAnswer({
    ...options,
    cell: (ordinal) =>
      ordinal === 1
        ? `<Value xsi:type="xsd:string">${text}</Value><FmtValue>${text}</FmtValue>`
        : cellOf(ordinal),
  });
}

/** The dataset by which MDX for Kylin reports a failed query: one member `dummy`, its caption the message. */
export function kylinErrorAnswer(caption = KYLIN_MESSAGE): string {
  const member = memberOf('[Customer].[All].[dummy]', caption);
  return mddatasetAnswer({ style: 'kylin', cells: 0, members: [] }).replace(
    '</Tuples>',
    `<Tuple>${member}</Tuple></Tuples>`,
  );
}

/** The text of that message. */
export const KYLIN_MESSAGE =
  'MDX Query ID: 6f2c-4b7e. Error message: no realization found for the query';

/** A good answer in which the engine began a session of its own. */
export function sessionAnswer(options: FrameOptions = {}): string {
  return mddatasetAnswer({ ...options, header: SESSION_HEADER });
}

/** The bytes of an answer in an encoding, without a byte order mark. */
export function encodeAnswer(
  text: string,
  encoding: 'utf-8' | 'utf-16le' | 'utf-16be' | 'iso-8859-1',
): Buffer {
  switch (encoding) {
    case 'utf-8':
      return Buffer.from(text, 'utf8');
    case 'utf-16le':
      return Buffer.from(text, 'utf16le');
    case 'utf-16be':
      return Buffer.from(text, 'utf16le').swap16();
    case 'iso-8859-1':
      return Buffer.from(text, 'latin1');
  }
}

function declaration(encoding: string): string {
  return encoding === '' ? '' : `<?xml version="1.0" encoding="${encoding}"?>\n`;
}

function cubeRow(name: string): string {
  return `<row><CATALOG_NAME>FoodMart</CATALOG_NAME><CUBE_NAME>${name}</CUBE_NAME><CUBE_TYPE>CUBE</CUBE_TYPE><LAST_SCHEMA_UPDATE>2026-01-05T10:00:00</LAST_SCHEMA_UPDATE><IS_DRILLTHROUGH_ENABLED>true</IS_DRILLTHROUGH_ENABLED><DESCRIPTION>Cube &lt;${name}&gt; &amp; more, naïve café</DESCRIPTION></row>\n`;
}

function tuple(name: string): string {
  return `<Tuple>${memberOf(`[Customer].[All].[${name}]`, name)}</Tuple>`;
}

function memberOf(uniqueName: string, caption: string): string {
  return `<Member Hierarchy="[Customer]"><UName>${uniqueName}</UName><Caption>${caption}</Caption><LName>[Customer].[Name]</LName><LNum>1</LNum><DisplayInfo>131072</DisplayInfo></Member>`;
}

function cellOf(ordinal: number): string {
  return `<Value xsi:type="xsd:double">${ordinal + 0.25}</Value><FmtValue>${ordinal}.25</FmtValue><FormatString>Standard</FormatString>`;
}

const ROWSET_SCHEMA = `<xsd:schema targetNamespace="${XMLA}:rowset" elementFormDefault="qualified">
<xsd:element name="root"><xsd:complexType><xsd:sequence><xsd:element name="row" type="row" minOccurs="0" maxOccurs="unbounded"/></xsd:sequence></xsd:complexType></xsd:element>
<xsd:complexType name="row"><xsd:sequence>
<xsd:element name="CATALOG_NAME" type="xsd:string" minOccurs="0"/>
<xsd:element name="CUBE_NAME" type="xsd:string"/>
</xsd:sequence></xsd:complexType>
</xsd:schema>
`;

const MDDATASET_SCHEMA = `<xsd:schema targetNamespace="${XMLA}:mddataset" elementFormDefault="qualified">
<xsd:complexType name="MemberType"><xsd:sequence><xsd:element name="UName" type="xsd:string"/></xsd:sequence></xsd:complexType>
<xsd:element name="root"><xsd:complexType><xsd:sequence><xsd:any namespace="http://www.w3.org/2001/XMLSchema" processContents="strict" minOccurs="0"/></xsd:sequence></xsd:complexType></xsd:element>
</xsd:schema>`;

const OLAP_INFO = `<OlapInfo><CubeInfo><Cube><CubeName>Sales</CubeName></Cube></CubeInfo><AxesInfo><AxisInfo name="Axis0"><HierarchyInfo name="[Customer]"><UName name="[Customer].[MEMBER_UNIQUE_NAME]" type="xsd:string"/></HierarchyInfo></AxisInfo></AxesInfo><CellInfo><Value name="VALUE"/><FmtValue name="FORMATTED_VALUE" type="xsd:string"/></CellInfo></OlapInfo>`;
