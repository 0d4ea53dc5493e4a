import { isPlainNamespace, XMLNS, XSI } from '../namespaces.ts';
import type { XmlAttribute } from './xml-tree.ts';

/** Prefixes that are bound, the innermost first. */
export interface Scope {
  readonly prefix: string;
  readonly uri: string;
  readonly outer: Scope | undefined;
}

/** What was read of an attribute before all prefixes of its element are known. */
export interface RawAttribute {
  readonly prefix: string;
  readonly local: string;
  readonly value: string;
}

/** The namespace to which a prefix is bound; undefined for none. */
export function resolve(prefix: string, scope: Scope | undefined): string | undefined {
  let one = scope;
  while (one !== undefined && one.prefix !== prefix) one = one.outer;
  return one?.uri;
}

/** Whether a declaration is one of which nothing need be thought. @param outer the scope around its element */
export function mayBind(
  prefix: string,
  uri: string,
  scope: Scope | undefined,
  outer: Scope | undefined,
): boolean {
  for (let one = scope; one !== outer; one = one?.outer) {
    if (one?.prefix === prefix) return false;
  }
  return (
    uri !== '' &&
    !prefix.startsWith('xml') &&
    uri !== XMLNS &&
    uri !== 'http://www.w3.org/XML/1998/namespace' &&
    isPlainNamespace(uri)
  );
}

/** Undefined for a prefix that is not bound, and for two attributes of one name. */
export function resolveAll(
  raw: readonly RawAttribute[],
  scope: Scope | undefined,
): readonly XmlAttribute[] | undefined {
  const known: XmlAttribute[] = [];
  for (const { prefix, local, value } of raw) {
    const uri = prefix === '' ? '' : resolve(prefix, scope);
    if (uri === undefined) return undefined;
    if (known.some((one) => one.local === local && one.uri === uri)) return undefined;
    known.push({ uri, local, value });
  }
  return known;
}

/** No namespace is called so. */
export const UNCLEAR = '\0';

/** The namespace of the prefix in `xsi:type`; undefined without one, UNCLEAR for what is left to the parser. */
export function typeNamespaceOf(
  attributes: readonly XmlAttribute[],
  scope: Scope | undefined,
): string | undefined {
  const type = attributes.find(({ uri, local }) => uri === XSI && local === 'type')?.value;
  const colon = type?.indexOf(':') ?? -1;
  if (type === undefined || colon < 1) return undefined;
  return type.startsWith('xml') ? UNCLEAR : resolve(type.slice(0, colon), scope);
}
