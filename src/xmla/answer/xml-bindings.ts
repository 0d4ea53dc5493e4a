import type { Prefix } from './xml-names.ts';

/** The scope that a tag begins. */
export interface OwnScope {
  /** all prefixes that the tag binds */
  readonly declared: readonly Declaration[];
  /** its number; see `Bindings` */
  readonly scope: number;
}

export interface Declaration {
  readonly prefix: Prefix;
  readonly text: string;
  readonly uri: string;
}

/** Which namespaces the prefixes stand for, in one document and, when that is over, in the next. */
export interface Bindings {
  /**
   * A number for all that is bound now. As long as it is the same, and whenever it is the same again, every name stands
   * for the same as before.
   */
  readonly scope: number;
  /**
   * Begins a scope within the one that counts.
   * @param declared all prefixes that it binds
   */
  begin(declared: readonly Declaration[]): OwnScope;
  /** Begins a scope that was begun before, within the same one as then. */
  beginAgain(own: OwnScope): void;
  /** Ends the innermost scope: what counted before it counts again. */
  release(): void;
  /** Whether the scopes are few that it knows by their declarations. */
  isSmall(): boolean;
}

/** So many scopes are known again by what they declare; bounds the memory. */
const MOST = 1024;

export function bindings(): Bindings {
  let last = 0;
  /** The number of a scope by that of the scope around it and its declarations: that is all that is bound in it. */
  const known = new Map<string, number>();
  const scopes: number[] = [];
  // What was bound before, and how much of it belongs to the scopes outside.
  const marks: number[] = [];
  const prefixes: Prefix[] = [];
  const formerUris: (string | undefined)[] = [];

  function number(spelt: string): number {
    last += 1;
    if (known.size < MOST) known.set(spelt, last);
    return last;
  }

  const all = {
    scope: 0,
    begin(declared: readonly Declaration[]) {
      let spelt = `${all.scope}`;
      // No prefix and no plain URI holds a blank.
      for (const { text, uri } of declared) spelt += ` ${text}=${uri}`;
      const own = { declared, scope: known.get(spelt) ?? number(spelt) };
      all.beginAgain(own);
      return own;
    },
    beginAgain({ declared, scope }: OwnScope) {
      scopes.push(all.scope);
      marks.push(prefixes.length);
      for (const { prefix, uri } of declared) {
        prefixes.push(prefix);
        formerUris.push(prefix.uri);
        prefix.uri = uri;
      }
      all.scope = scope;
    },
    release() {
      const mark = marks.pop() ?? 0;
      while (prefixes.length > mark) {
        const prefix = prefixes.pop();
        const former = formerUris.pop();
        if (prefix !== undefined) prefix.uri = former;
      }
      all.scope = scopes.pop() ?? 0;
    },
    isSmall: () => known.size < MOST,
  };
  return all;
}
