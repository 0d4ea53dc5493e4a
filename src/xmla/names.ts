import { isAscii } from '../common/fold-case.ts';

/** SOAP 1.1; no engine is asked in SOAP 1.2. */
export const SOAP = 'http://schemas.xmlsoap.org/soap/envelope/';
export const XMLA = 'urn:schemas-microsoft-com:xml-analysis';
export const XSD = 'http://www.w3.org/2001/XMLSchema';
/** The header SOAPAction, with its quotes (SOAP 1.1 §6.1.1, XMLA 1.1). */
export const soapActionOf = (method: 'Discover' | 'Execute') => `"${XMLA}:${method}"`;

/**
 * The header SOAPAction to ask with; undefined where it names something else. No header and an empty value say nothing,
 * with quotes or without, which clients leave away. SOAP::Lite writes `#`.
 */
export function canonicalSoapAction(header: string | undefined, method: 'Discover' | 'Execute') {
  const action = (header ?? '').trim().replace(/^"([^"]*)"$/, '$1');
  if (action === '' || action === `${XMLA}:${method}`) return soapActionOf(method);
  return action === `${XMLA}#${method}` ? `"${action}"` : undefined;
}

/** One spelling for what engines might take for one name; dotless i and long s meet ASCII only in upper case. */
export const foldName = (name: string) => name.toUpperCase().toLowerCase();

/** The same as a comparison with `foldName`, which is seldom needed: letters of ASCII keep their number. */
export const isFoldedTo = (name: string, folded: string): boolean =>
  (name.length === folded.length || !isAscii(name)) && foldName(name) === folded;

/** A table by words: each row is a value and its words, with white space between them. */
export function byWords<T>(rows: readonly (readonly [T, string])[]): ReadonlyMap<string, T> {
  return new Map(
    rows.flatMap(([value, words]) => words.split(/\s+/).map((word) => [word, value] as const)),
  );
}
