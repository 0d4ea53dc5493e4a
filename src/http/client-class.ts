/**
 * The kinds of client program that engines tell apart by User-Agent (MDX for Kylin does): the text up to the
 * first `/`, space or parenthesis. The engine is sent the class itself, so that an answer cannot depend on
 * anything finer than what is in the key.
 */
const USER_AGENT_CLASSES: readonly string[] = [
  'MSOLAP',
  'ADOMD.NET',
  'XmlaClient',
  'Java',
  'Olap4j',
  'MicroStrategy',
  'Apache-HttpClient',
  'gSOAP',
];

/** What the engine is sent for any other program. */
const OTHER_CLIENT = 'mdx-gateway';

/** @returns the User-Agent to forward; undefined when the client sent none */
export function userAgentClass(header: string | undefined): string | undefined {
  if (header === undefined || header.trim() === '') return undefined;
  const program = header.trim().split(/[/ (]/, 1)[0] ?? '';
  return USER_AGENT_CLASSES.find((name) => name === program) ?? OTHER_CLIENT;
}

/** Media types for which engines answer SOAP; they look for the first that they know, left to right. */
const XML_TYPES: ReadonlySet<string> = new Set([
  'text/xml',
  'application/xml',
  'application/soap+xml',
  '*/*',
]);

/**
 * @returns the media type to ask the engine for, undefined when the client names none; `not-xml` when it may
 *   want something else, so that its request is passed through as it is
 */
export function acceptedType(header: string | undefined): string | undefined | 'not-xml' {
  if (header === undefined) return undefined;
  const ranges = header.split(',').map((range) => range.toLowerCase().split(';'));
  if (ranges.some((range) => range.some((part) => /^\s*q\s*=\s*0(\.0*)?\s*$/.test(part)))) {
    return 'not-xml';
  }
  const types = ranges.map(([type = '']) => type.trim());
  const known = types.find((type) => XML_TYPES.has(type) || type === 'application/json');
  return known === undefined || known === 'application/json' ? 'not-xml' : known;
}
