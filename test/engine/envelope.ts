/** Builds XMLA requests the way several clients spell them. */

/** The prefix on the elements of SOAP; `default` is a default namespace and no prefix. */
export type EnvelopeStyle = 'SOAP-ENV' | 'soap' | 's' | 'default';

/** Several values are spelt as one element that holds `Value` elements. */
export type RestrictionList = readonly (readonly [
  name: string,
  value: string | readonly string[],
])[];

export type PropertyList = readonly (readonly [name: string, value: string])[];

export interface EnvelopeOptions {
  readonly style?: EnvelopeStyle;
  /** XML inside the SOAP header; no header element when absent. */
  readonly header?: string;
  readonly properties?: PropertyList;
}

export interface DiscoverOptions extends EnvelopeOptions {
  readonly restrictions?: RestrictionList;
}

export interface ExecuteOptions extends EnvelopeOptions {
  /** The statement in a CDATA section instead of escaped. */
  readonly cdata?: boolean;
}

export interface XmlaMessage {
  readonly method: 'Discover' | 'Execute';
  /** The value of the header SOAPAction, with its quotes. */
  readonly soapAction: string;
  readonly body: string;
}

export const XMLA_NAMESPACE = 'urn:schemas-microsoft-com:xml-analysis';
const SOAP_NAMESPACE = 'http://schemas.xmlsoap.org/soap/envelope/';

function escapeText(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}

const element = (name: string, content: string): string =>
  content === '' ? `<${name}/>` : `<${name}>${content}</${name}>`;

const propertyList = (properties: PropertyList): string =>
  element(
    'PropertyList',
    properties.map(([name, value]) => element(name, escapeText(value))).join(''),
  );

const restrictionList = (restrictions: RestrictionList): string =>
  element(
    'RestrictionList',
    restrictions
      .map(([name, value]) =>
        element(
          name,
          typeof value === 'string'
            ? escapeText(value)
            : value.map((one) => element('Value', escapeText(one))).join(''),
        ),
      )
      .join(''),
  );

/** The envelope around `content`, the XML of one Discover or Execute. */
export function envelope(
  method: XmlaMessage['method'],
  content: string,
  { style = 'SOAP-ENV', header }: EnvelopeOptions = {},
): XmlaMessage {
  const prefix = style === 'default' ? '' : `${style}:`;
  const declaration = style === 'default' ? 'xmlns' : `xmlns:${style}`;
  const soapHeader = header === undefined ? '' : element(`${prefix}Header`, header);
  const call = `<${method} xmlns="${XMLA_NAMESPACE}">${content}</${method}>`;
  return {
    method,
    soapAction: `"${XMLA_NAMESPACE}:${method}"`,
    body:
      '<?xml version="1.0" encoding="UTF-8"?>\n' +
      `<${prefix}Envelope ${declaration}="${SOAP_NAMESPACE}">${soapHeader}` +
      `<${prefix}Body>${call}</${prefix}Body></${prefix}Envelope>`,
  };
}

/** A Discover of one request type, e.g. `MDSCHEMA_CUBES`. */
export function discover(requestType: string, options: DiscoverOptions = {}): XmlaMessage {
  const { restrictions = [], properties = [] } = options;
  return envelope(
    'Discover',
    element('RequestType', requestType) +
      element('Restrictions', restrictionList(restrictions)) +
      element('Properties', propertyList(properties)),
    options,
  );
}

/** An Execute whose Command is the XML `command`. */
export function executeCommand(command: string, options: EnvelopeOptions = {}): XmlaMessage {
  return envelope(
    'Execute',
    element('Command', command) + element('Properties', propertyList(options.properties ?? [])),
    options,
  );
}

/** An Execute of one statement. */
export function execute(statement: string, options: ExecuteOptions = {}): XmlaMessage {
  const text = options.cdata
    ? `<![CDATA[${statement.replaceAll(']]>', ']]]]><![CDATA[>')}]]>`
    : escapeText(statement);
  return executeCommand(element('Statement', text), options);
}
