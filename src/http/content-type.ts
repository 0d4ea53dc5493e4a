import { parse } from 'content-type';

/** Media types of an XMLA request (SOAP 1.1 §6, and what engines accept beside it). */
const XMLA_TYPES: ReadonlySet<string> = new Set(['text/xml', 'application/xml']);

/**
 * The Content-Type to send to the engine for a cacheable request: media type and charset, in one spelling.
 * @returns undefined when it is no XMLA type, or says more than that
 */
export function canonicalContentType(header: string | undefined): string | undefined {
  if (header === undefined) return undefined;
  try {
    const { type, parameters } = parse(header);
    const { charset, ...others } = parameters;
    if (!XMLA_TYPES.has(type.toLowerCase()) || Object.keys(others).length > 0) return undefined;
    return charset === undefined
      ? type.toLowerCase()
      : `${type.toLowerCase()}; charset=${charset.toLowerCase()}`;
  } catch {
    return undefined;
  }
}
