import { isPlainNamespace, XMLNS, XSI } from '../namespaces.ts';
import type { XmlAttribute } from './xml-tree.ts';

/**
 * More declarations in scope at one time than this and a body is not read: the parser looks for a prefix in every open
 * element, and keeps the declarations of one in a form in which tens of thousands of them hold the event loop up.
 * Toolkits that declare a prefix for every part of a message stay far below.
 */
export const MAX_DECLARATIONS = 256;

/** What was read of an attribute before all prefixes of its element are known. */
export interface RawAttribute {
  readonly prefix: string;
  readonly local: string;
  readonly value: string;
}

/** The namespaces to which prefixes are bound where the reader is. A look-up takes the same time for any number. */
export class Scope {
  readonly #bound = new Map<string, string>();
  /** In their order, each with what its prefix was bound to before. */
  readonly #declared: { readonly prefix: string; readonly before: string | undefined }[] = [];

  /** Declarations in scope. */
  get size(): number {
    return this.#declared.length;
  }

  /**
   * Binds a prefix, unless there are too many or it is something of which the parser must think.
   * @param outer how many declarations were in scope around its element
   * @returns false where it was not bound
   */
  bind(prefix: string, uri: string, outer: number): boolean {
    const declared = this.#declared;
    for (let i = outer; i < declared.length; i += 1)
      if (declared[i]?.prefix === prefix) return false;
    if (declared.length === MAX_DECLARATIONS || !mayBind(prefix, uri)) return false;
    declared.push({ prefix, before: this.#bound.get(prefix) });
    this.#bound.set(prefix, uri);
    return true;
  }

  /** Leaves an element. @param outer how many declarations were in scope around it */
  leave(outer: number): void {
    while (this.#declared.length > outer) {
      const { prefix = '', before } = this.#declared.pop() ?? {};
      if (before === undefined) this.#bound.delete(prefix);
      else this.#bound.set(prefix, before);
    }
  }

  /** The namespace to which a prefix is bound; undefined for none. */
  resolve(prefix: string): string | undefined {
    return this.#bound.get(prefix);
  }
}

/** Whether a declaration is one of which nothing need be thought. */
function mayBind(prefix: string, uri: string): boolean {
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
  scope: Scope,
): readonly XmlAttribute[] | undefined {
  const known: XmlAttribute[] = [];
  for (const { prefix, local, value } of raw) {
    const uri = prefix === '' ? '' : scope.resolve(prefix);
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
  scope: Scope,
): string | undefined {
  const type = attributes.find(({ uri, local }) => uri === XSI && local === 'type')?.value;
  const colon = type?.indexOf(':') ?? -1;
  if (type === undefined || colon < 1) return undefined;
  return type.startsWith('xml') ? UNCLEAR : scope.resolve(type.slice(0, colon));
}
