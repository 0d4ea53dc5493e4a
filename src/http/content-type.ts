import { parse } from 'content-type';

/** Media types of an XMLA request (SOAP 1.1 §6, and what engines accept beside it). */
const XMLA_TYPES: ReadonlySet<string> = new Set(['text/xml', 'application/xml']);

const UTF8_JSON =
  /^[ \t]*application\/json[ \t]*(?:;[ \t]*charset=(?:utf-?8|"utf-?8")[ \t]*)?;?[ \t]*$/i;

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

/**
 * Whether a request says that its body is JSON in UTF-8 (RFC 8259 §8.1). Clients of the interface document
 * write the charset `utf8`; nothing else may stand beside the type.
 */
export function isUtf8Json(header: string | undefined): boolean {
  return UTF8_JSON.test(header ?? '');
}
