import type { IncomingHttpHeaders } from 'node:http';
import { XmlDocument, XmlElement, type XmlNode } from 'libxml2-wasm';

/** One request as an engine reads it: with a parser of its own, and nothing of the gateway's. */
export interface EngineRequest {
  /** Name of the login; '' without one. */
  readonly user: string;
  /** Of the SOAP header, or of the header X-AS-SessionID. */
  readonly session: EngineSession;
  /** The user of WS-Security; undefined without one. */
  readonly security: string | undefined;
  readonly method: 'Discover' | 'Execute';
  /** Local names of what stands in Command. */
  readonly commands: readonly string[];
  /** Without carriage returns and outer white space. */
  readonly statement: string;
  readonly requestType: string;
  readonly restrictions: readonly Named[];
  readonly parameters: readonly string[];
  readonly properties: readonly Named[];
  /** The header blocks Version, with all their attributes. */
  readonly versions: readonly string[];
  readonly headers: IncomingHttpHeaders;
}

export type Named = readonly [name: string, value: string];

export interface EngineSession {
  readonly kind: 'none' | 'begin' | 'in' | 'end';
  readonly id: string;
  /** Whether it says mustUnderstand="1". */
  readonly understand: boolean;
  readonly byHeader: boolean;
}

const NAMESPACES = {
  s: 'http://schemas.xmlsoap.org/soap/envelope/',
  x: 'urn:schemas-microsoft-com:xml-analysis',
};

const METHOD = '/s:Envelope/s:Body/*[1]';

/** @throws when the body is no XMLA request in XML */
export function readEngineRequest(body: Buffer, headers: IncomingHttpHeaders): EngineRequest {
  const document = XmlDocument.fromBuffer(body);
  try {
    const find = (path: string) => elementsOf(document.find(path, NAMESPACES));
    const textOf = (path: string) => find(path)[0]?.content ?? '';
    const named = (path: string) => find(path).map((one): Named => [one.name, withValues(one)]);
    return {
      user: userOf(headers.authorization),
      session: sessionOf(find('/s:Envelope/s:Header/x:*'), headers),
      security: find(
        `/s:Envelope/s:Header/*[local-name()='Security']//*[local-name()='Username']`,
      )[0]?.content,
      method: find(METHOD)[0]?.name === 'Discover' ? 'Discover' : 'Execute',
      commands: find(`${METHOD}/x:Command/*`).map(({ name }) => name),
      statement: textOf(`${METHOD}/x:Command/*[local-name()='Statement']`)
        .replaceAll('\r', '')
        .trim(),
      requestType: textOf(`${METHOD}/x:RequestType`),
      restrictions: named(`${METHOD}/x:Restrictions/x:RestrictionList/*`),
      parameters: find(`${METHOD}/x:Parameters/*`).map((one) => one.toString({ format: false })),
      properties: named(`${METHOD}/x:Properties/x:PropertyList/*`),
      versions: find(`/s:Envelope/s:Header/*[local-name()='Version']`).map((one) =>
        one.attrs.map(({ name, value }) => `${name}=${value}`).join(' '),
      ),
      headers,
    };
  } finally {
    document.dispose();
  }
}

/** The value of a property; '' when the request does not name it. */
export function propertyOf({ properties }: EngineRequest, name: string): string {
  return properties.find(([one]) => one === name)?.[1] ?? '';
}

function userOf(authorization: string | undefined): string {
  const [, credentials = ''] = (authorization ?? '').split(' ');
  return Buffer.from(credentials, 'base64').toString().split(':')[0] ?? '';
}

function sessionOf(blocks: readonly XmlElement[], headers: IncomingHttpHeaders): EngineSession {
  const kinds = { BeginSession: 'begin', Session: 'in', EndSession: 'end' } as const;
  for (const block of blocks) {
    const kind = kinds[block.name as keyof typeof kinds];
    if (kind === undefined) continue;
    const understand = block.attrs.some(
      ({ name, value }) => name === 'mustUnderstand' && value === '1',
    );
    return { kind, id: block.attr('SessionId')?.value ?? '', understand, byHeader: false };
  }
  const id = headers['x-as-sessionid'];
  return typeof id === 'string' && id !== ''
    ? { kind: 'in', id, understand: true, byHeader: true }
    : { kind: 'none', id: '', understand: false, byHeader: false };
}

/** The two spellings of several values stay two. */
function withValues(element: XmlElement): string {
  const values = elementsOf(element.find('*'));
  return values.length === 0
    ? element.content
    : values.map(({ content }) => `<${content}>`).join('');
}

function elementsOf(nodes: readonly XmlNode[]): readonly XmlElement[] {
  return nodes.filter((node) => node instanceof XmlElement);
}
