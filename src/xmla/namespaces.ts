/** The namespaces by which an envelope is read. Prefixes say nothing. */

/** SOAP 1.1; SOAP 1.2 is another namespace and no engine is asked in it. */
export const SOAP = 'http://schemas.xmlsoap.org/soap/envelope/';
/** XML for Analysis 1.1. */
export const XMLA = 'urn:schemas-microsoft-com:xml-analysis';
export const XSI = 'http://www.w3.org/2001/XMLSchema-instance';
export const XSD = 'http://www.w3.org/2001/XMLSchema';
export const XMLNS = 'http://www.w3.org/2000/xmlns/';

const PLAIN =
  /^(?:|urn:[\w.-]+(?:[:/][\w.-]+)*|https?:\/\/[\w.-]+(?::\d{1,5})?(?:\/[\w.~:-]*)*(?:#[\w-]*)?)$/;

/** The parser puts the name in front of every attribute, so that a long one would be copied a thousand times. */
const LONGEST = 256;

/**
 * Whether a namespace name is one as clients and engines use them. saxes trims them and takes any text for
 * one; others do not trim, and some parsers refuse what is no URI.
 */
export function isPlainNamespace(name: string): boolean {
  return name.length <= LONGEST && PLAIN.test(name);
}
