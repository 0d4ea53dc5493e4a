/** The namespaces by which an envelope is read. Prefixes say nothing. */

/** SOAP 1.1; SOAP 1.2 is another namespace and no engine is asked in it. */
export const SOAP = 'http://schemas.xmlsoap.org/soap/envelope/';
/** XML for Analysis 1.1. */
export const XMLA = 'urn:schemas-microsoft-com:xml-analysis';
export const XSD = 'http://www.w3.org/2001/XMLSchema';

/** The value of the header SOAPAction for a method, with its quotes (SOAP 1.1 §6.1.1, XMLA 1.1). */
export function soapActionOf(method: 'Discover' | 'Execute'): string {
  return `"${XMLA}:${method}"`;
}

/**
 * Whether a header SOAPAction says something else than the body. No header and an empty value, quoted or
 * not, say nothing; clients leave the quotes away.
 */
export function soapActionContradicts(
  header: string | undefined,
  method: 'Discover' | 'Execute',
): boolean {
  const action = (header ?? '').trim().replace(/^"([^"]*)"$/, '$1');
  return action !== '' && action !== `${XMLA}:${method}`;
}

/**
 * One spelling for all spellings of a name that some engine might take for the same one. Upper case first,
 * because letters such as dotless i and long s meet their ASCII partners only there.
 */
export function foldName(name: string): string {
  return name.toUpperCase().toLowerCase();
}
