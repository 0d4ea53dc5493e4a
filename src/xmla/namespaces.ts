/** The namespaces by which an envelope is read. Prefixes say nothing. */

/** SOAP 1.1; SOAP 1.2 is another namespace and no engine is asked in it. */
export const SOAP = 'http://schemas.xmlsoap.org/soap/envelope/';
/** XML for Analysis 1.1. */
export const XMLA = 'urn:schemas-microsoft-com:xml-analysis';
export const XSD = 'http://www.w3.org/2001/XMLSchema';
export { XSI } from '../xml/namespace-names.ts';
