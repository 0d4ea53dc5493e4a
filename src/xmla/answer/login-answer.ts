import { SOAP, XMLA } from '../namespaces.ts';
import { isElement, readTree, type XmlElement } from '../../xml/read-tree.ts';
import { decodeText } from '../../xml/text-encoding.ts';

/** What an engine said to a login by its answer to a Discover. */
export type LoginAnswer = 'accepted' | 'rejected' | 'unavailable';

/** Names that tell of an error wherever they stand in an answer. */
const ERRORS: ReadonlySet<string> = new Set(['Fault', 'Exception', 'Error', 'Messages', 'Warning']);

/**
 * Reads a whole answer to a Discover for what it says of the login. Engines refuse one by 401 or 403, or by a Fault
 * with status 200 (MDX for Kylin, Mondrian). Only a whole, well-formed rowset in a DiscoverResponse without any
 * error accepts it; whatever is neither, a page of a proxy or half an answer, says nothing.
 *
 * @param answer.body without content coding
 */
export function readLoginAnswer(answer: {
  readonly status: number;
  readonly contentType: string | undefined;
  readonly body: Buffer;
}): LoginAnswer {
  if (answer.status === 401 || answer.status === 403) return 'rejected';
  if (answer.status !== 200) return 'unavailable';
  const decoded = decodeText(answer.body, answer.contentType);
  const parsed = decoded.ok ? readTree(decoded.utf8) : undefined;
  return parsed?.kind === 'tree' ? readEnvelope(parsed.root) : 'unavailable';
}

function readEnvelope(envelope: XmlElement): LoginAnswer {
  if (!isElement(envelope, SOAP, 'Envelope')) return 'unavailable';
  const rest = envelope.children.filter((child) => !isElement(child, SOAP, 'Header'));
  const body = only(rest, SOAP, 'Body');
  if (only(body?.children, SOAP, 'Fault') !== undefined) return 'rejected';
  const response = only(body?.children, XMLA, 'DiscoverResponse');
  // The examples of XMLA 1.1 show `return` with and without the namespace.
  const result = only(response?.children, XMLA, 'return') ?? only(response?.children, '', 'return');
  const root = only(result?.children, `${XMLA}:rowset`, 'root');
  return root === undefined || tellsError(envelope) ? 'unavailable' : 'accepted';
}

function only(
  children: readonly XmlElement[] | undefined,
  uri: string,
  local: string,
): XmlElement | undefined {
  const [child] = children ?? [];
  const fits = child !== undefined && children?.length === 1 && isElement(child, uri, local);
  return fits ? child : undefined;
}

function tellsError(element: XmlElement): boolean {
  return ERRORS.has(element.local) || element.children.some(tellsError);
}
