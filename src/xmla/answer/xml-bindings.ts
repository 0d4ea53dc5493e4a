import type { Prefix } from './xml-names.ts';

/** Which namespaces the prefixes stand for, in one document. */
export interface Bindings {
  /**
   * A number for all that is bound now. As long as it is the same, and whenever it is the same again, every name stands
   * for the same as before.
   */
  readonly scope: number;
  /** Begins a scope within the one that counts. */
  begin(): void;
  bind(prefix: Prefix, uri: string): void;
  /** Ends the innermost scope: what counted before it counts again. */
  release(): void;
}

export function bindings(): Bindings {
  let last = 0;
  const scopes: number[] = [];
  // What was bound before, and how much of it belongs to the scopes outside.
  const marks: number[] = [];
  const prefixes: Prefix[] = [];
  const formerUris: (string | undefined)[] = [];

  const all = {
    scope: 0,
    begin() {
      scopes.push(all.scope);
      marks.push(prefixes.length);
      // Never a number of before, even for the same declarations: the prefixes outside may differ.
      last += 1;
      all.scope = last;
    },
    bind(prefix: Prefix, uri: string) {
      prefixes.push(prefix);
      formerUris.push(prefix.uri);
      prefix.uri = uri;
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
  };
  return all;
}
