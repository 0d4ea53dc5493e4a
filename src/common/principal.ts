import { foldObjectName } from './fold-case.ts';

/** A user whose credentials were checked. */
export interface Principal {
  /** Spelt as in the users file, or, where the engine checks, as in the credentials. */
  readonly name: string;
  /** Identity at an engine that is sent its login. */
  readonly forwardedAs: string;
  /** Name under which it has its part of all limits. */
  readonly owner: string;
}

/** No name in a login holds a colon (RFC 7617 §2), so this one is no name in UTF-8. */
const LATIN1 = 'iso-8859-1:';
/** A name in ISO-8859-1. To an engine it differs from the same letters in UTF-8. */
export const inLatin1 = (name: string): string => LATIN1 + name;

export const principalOf = (name: string, forwardedAs = name): Principal =>
  Object.freeze({ name, forwardedAs, owner: ownerOf(name) });

/** One owner for all spellings that an engine might take for one user: none has its own limits. */
export function ownerOf(name: string): string {
  const readable = name.startsWith(LATIN1) ? name.slice(LATIN1.length) : name;
  return foldObjectName(readable) || readable;
}
