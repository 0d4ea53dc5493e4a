import { isAscii } from '../common/fold-case.ts';

/** The namespace of SOAP 1.1; no engine is asked in SOAP 1.2. */
export const SOAP = 'http://schemas.xmlsoap.org/soap/envelope/';
export const XMLA = 'urn:schemas-microsoft-com:xml-analysis';
export const XSD = 'http://www.w3.org/2001/XMLSchema';
/** The header SOAPAction with its quotes (SOAP 1.1 §6.1.1, XMLA 1.1). */
export const soapActionOf = (method: 'Discover' | 'Execute') => `"${XMLA}:${method}"`;

/** Undefined for another action. Clients leave it away or empty; SOAP::Lite writes `#`. */
export function canonicalSoapAction(header: string | undefined, method: 'Discover' | 'Execute') {
  const action = (header ?? '').trim().replace(/^"([^"]*)"$/, '$1');
  if (action === '' || action === `${XMLA}:${method}`) return soapActionOf(method);
  return action === `${XMLA}#${method}` ? `"${action}"` : undefined;
}

/** Folds what engines might take for one name; ı and ſ meet ASCII only in upper case. */
export const foldName = (name: string) => name.toUpperCase().toLowerCase();

/** Folds a name to look it up: none of ours is long, and folding makes no name shorter. */
export const foldToFind = (name: string) => (name.length > 64 ? name : foldName(name));

/** Equals a comparison by `foldName`, but folds seldom: ASCII letters keep their number. */
export const isFoldedTo = (name: string, folded: string): boolean =>
  (name.length === folded.length || !isAscii(name)) && foldToFind(name) === folded;

export function byWords<T>(rows: readonly (readonly [T, string])[]): ReadonlyMap<string, T> {
  return new Map(
    rows.flatMap(([value, words]) =>
      words
        .trim()
        .split(/\s+/)
        .map((word) => [word, value] as const),
    ),
  );
}
