/** Namespaces in XML 1.0, section 3: bound from the start, and not to be bound otherwise. */
export const XML_NAMESPACE = 'http://www.w3.org/XML/1998/namespace';
export const XMLNS = 'http://www.w3.org/2000/xmlns/';

export const XSI = 'http://www.w3.org/2001/XMLSchema-instance';

const PLAIN =
  /^(?:|urn:[\w.-]+(?:[:/][\w.-]+)*|https?:\/\/[\w.-]+(?::\d{1,5})?(?:\/[\w.~:-]*)*(?:#[\w-]*)?)$/;

/** Longer ones are of no engine and no client. */
const LONGEST = 256;

/**
 * Whether a namespace name is one as clients and engines use them. Some parsers trim names, others do not, and some
 * refuse what is no URI.
 */
export function isPlainNamespace(name: string): boolean {
  return name.length <= LONGEST && PLAIN.test(name);
}
