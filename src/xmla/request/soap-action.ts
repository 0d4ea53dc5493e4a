import { XMLA } from '../namespaces.ts';
import type { XmlaRequest } from './xmla-request.ts';

type Method = XmlaRequest['method'];

/** The value of the header SOAPAction for a method, with its quotes (SOAP 1.1 §6.1.1, XMLA 1.1). */
export function soapActionOf(method: Method): string {
  return `"${XMLA}:${method}"`;
}

/**
 * Whether a header SOAPAction says something else than the body. No header and an empty value, quoted or
 * not, say nothing; clients leave the quotes away.
 */
export function soapActionContradicts(header: string | undefined, method: Method): boolean {
  const value = header?.trim() ?? '';
  const quoted = /^"([^"]*)"$/.exec(value);
  const action = quoted?.[1] ?? value;
  return action !== '' && action !== `${XMLA}:${method}`;
}
