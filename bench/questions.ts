import { randomUUID } from 'node:crypto';

/**
 * What requests of the benchmark ask, as templates: what differs from one request to the next is a slot. The load
 * generator fills slots as this file does.
 */

/** Slots and the length of what goes into them, which never varies: so no Content-Length does. */
export const SLOTS = {
  /** A GUID that no request had before. */
  '@GUID@': 36,
  /** The id of a session that was begun before, in turn. */
  '@SESSION@': 36,
  /** A number of eight digits, in turn. */
  '@NUMBER@': 8,
} as const;

export type Slot = keyof typeof SLOTS;

const XMLA = 'urn:schemas-microsoft-com:xml-analysis';
const SOAP = 'http://schemas.xmlsoap.org/soap/envelope/';

/** So that a request has 1.6 KB, as those of pivot tables have. */
const SET = '[Time].[1997].[Q1].[1], '.repeat(30);

export const XMLA_HEADERS = {
  'Content-Type': 'text/xml',
  SOAPAction: `"${XMLA}:Execute"`,
} as const;

export interface Question {
  /** Bytes of the answer that the engine gives. */
  readonly size: number;
  /** Makes this question another than those of other names. May be a slot. */
  readonly name?: string;
  readonly session?: 'begin' | Slot;
  /** Whether activity and request ids stand in it that are new each time, as Excel sends them. */
  readonly freshIds?: boolean;
  /** `drillthrough` and `empty` must not be answered from a cache. */
  readonly kind?: 'query' | 'drillthrough' | 'empty';
}

const CONSTANT_GUID = '11111111-2222-3333-4444-555555555555';

/** The body of a request, with its slots. */
export function template(question: Question): string {
  const { session, freshIds = false } = question;
  const guid = freshIds ? '@GUID@' : CONSTANT_GUID;
  const ids = ['ActivityID', 'RequestID', 'CurrentActivityID'].map(
    (name) => `<DbpropMsmd${name}>${guid}</DbpropMsmd${name}>`,
  );
  const header =
    session === undefined ? '' : `<soap:Header>${sessionElement(session)}</soap:Header>`;
  return (
    `<soap:Envelope xmlns:soap="${SOAP}">${header}<soap:Body><Execute xmlns="${XMLA}"><Command>` +
    `<Statement>${statementOf(question)}</Statement></Command><Properties><PropertyList>` +
    `<Catalog>FoodMart</Catalog><DataSourceInfo>x</DataSourceInfo><Format>Multidimensional</Format>` +
    `<AxisFormat>TupleFormat</AxisFormat>${ids.join('')}</PropertyList></Properties></Execute></soap:Body></soap:Envelope>`
  );
}

function statementOf({ size, name = 'A', kind = 'query' }: Question): string {
  if (kind === 'empty') return '';
  const begin = kind === 'drillthrough' ? 'DRILLTHROUGH ' : '';
  return `${begin}SELECT {${SET}[Time].[1997]} ON COLUMNS, {[Product].[SIZE_${size}].[${name}]} ON ROWS FROM [Sales]`;
}

function sessionElement(session: 'begin' | Slot): string {
  return session === 'begin'
    ? `<BeginSession xmlns="${XMLA}" mustUnderstand="1"/>`
    : `<Session xmlns="${XMLA}" SessionId="${session}" mustUnderstand="1"/>`;
}

/** A body with every slot filled. */
export function filled(text: string, values: { session?: string; number?: number } = {}): string {
  return text
    .replaceAll('@GUID@', () => randomUUID())
    .replaceAll('@SESSION@', values.session ?? CONSTANT_GUID)
    .replaceAll('@NUMBER@', numberText(values.number ?? 0));
}

export function numberText(number: number): string {
  return String(number).padStart(SLOTS['@NUMBER@'], '0');
}

/** Bytes of a body when its slots are filled. Templates are ASCII. */
export function filledLength(text: string): number {
  let length = text.length;
  for (const [slot, size] of Object.entries(SLOTS)) {
    length += (text.split(slot).length - 1) * (size - slot.length);
  }
  return length;
}
