import type { Parameter, Property, Restriction } from '../../src/xmla/request/read-request.ts';

const SOAP = 'http://schemas.xmlsoap.org/soap/envelope/';
const XMLA = 'urn:schemas-microsoft-com:xml-analysis';

export type SessionSpec =
  | { readonly kind: 'begin' }
  | { readonly kind: 'in' | 'end'; readonly id: string };

interface EnvelopeSpec {
  /** Name to value. A list where the order or a repetition matters. */
  readonly properties?: Readonly<Record<string, string>> | readonly Property[];
  readonly session?: SessionSpec;
  /** The prefix of the SOAP elements; with '' they are in the default namespace. `SOAP-ENV` by default. */
  readonly prefix?: string;
}

export interface DiscoverSpec extends EnvelopeSpec {
  readonly requestType: string;
  /** Name to value, in the plain form. A list where form, order or a repetition matters. */
  readonly restrictions?: Readonly<Record<string, string>> | readonly Restriction[];
}

export interface ExecuteSpec extends EnvelopeSpec {
  readonly statement: string;
  readonly parameters?: readonly Parameter[];
}

/** The body of a Discover request, UTF-8. */
export function discover(spec: DiscoverSpec): Buffer {
  const restrictions = restrictionList(spec.restrictions ?? {})
    .map(restrictionElement)
    .join('');
  return envelope(
    `<Discover xmlns="${XMLA}"><RequestType>${escapeText(spec.requestType)}</RequestType>` +
      `<Restrictions><RestrictionList>${restrictions}</RestrictionList></Restrictions>` +
      `${propertiesElement(spec)}</Discover>`,
    spec,
  );
}

/** The body of an Execute request with one statement, UTF-8. */
export function execute(spec: ExecuteSpec): Buffer {
  return envelope(
    `<Execute xmlns="${XMLA}"><Command><Statement>${escapeText(spec.statement)}</Statement></Command>` +
      `${propertiesElement(spec)}${parametersElement(spec.parameters ?? [])}</Execute>`,
    spec,
  );
}

/** Text as it may stand in an element or, without line ends, in an attribute: nothing of it is lost, not even carriage returns. */
function escapeText(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
    .replaceAll('\r', '&#13;');
}

function envelope(method: string, { session, prefix = 'SOAP-ENV' }: EnvelopeSpec): Buffer {
  const [mark, declaration] = prefix === '' ? ['', 'xmlns'] : [`${prefix}:`, `xmlns:${prefix}`];
  const header =
    session === undefined ? '' : `<${mark}Header>${sessionElement(session)}</${mark}Header>`;
  return Buffer.from(
    `<?xml version="1.0" encoding="UTF-8"?>\n` +
      `<${mark}Envelope ${declaration}="${SOAP}">${header}` +
      `<${mark}Body>${method}</${mark}Body></${mark}Envelope>`,
    'utf8',
  );
}

function sessionElement(session: SessionSpec): string {
  if (session.kind === 'begin') {
    return `<BeginSession xmlns="${XMLA}" mustUnderstand="1"/>`;
  }
  const name = session.kind === 'in' ? 'Session' : 'EndSession';
  return `<${name} xmlns="${XMLA}" mustUnderstand="1" SessionId="${escapeText(session.id)}"/>`;
}

function propertiesElement({ properties = {} }: EnvelopeSpec): string {
  const list = isList(properties)
    ? properties
    : Object.entries(properties).map(([name, value]) => ({ name, value }));
  const elements = list.map(({ name, value }) => `<${name}>${escapeText(value)}</${name}>`);
  return `<Properties><PropertyList>${elements.join('')}</PropertyList></Properties>`;
}

function restrictionList(
  restrictions: Readonly<Record<string, string>> | readonly Restriction[],
): readonly Restriction[] {
  return isList(restrictions)
    ? restrictions
    : Object.entries(restrictions).map(([name, value]) => ({
        name,
        form: 'plain',
        values: [value],
      }));
}

function restrictionElement({ name, form, values }: Restriction): string {
  const texts = values.map(escapeText);
  return form === 'plain'
    ? texts.map((text) => `<${name}>${text}</${name}>`).join('')
    : `<${name}>${texts.map((text) => `<Value>${text}</Value>`).join('')}</${name}>`;
}

function parametersElement(parameters: readonly Parameter[]): string {
  if (parameters.length === 0) {
    return '';
  }
  const elements = parameters.map(({ name, type, value }) => {
    const typed = type === '' ? '' : ` xsi:type="${escapeText(type)}"`;
    return `<Parameter><Name>${escapeText(name)}</Name><Value${typed}>${escapeText(value)}</Value></Parameter>`;
  });
  return (
    `<Parameters xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" ` +
    `xmlns:xsd="http://www.w3.org/2001/XMLSchema">${elements.join('')}</Parameters>`
  );
}

function isList<T>(spec: Readonly<Record<string, string>> | readonly T[]): spec is readonly T[] {
  return Array.isArray(spec);
}
