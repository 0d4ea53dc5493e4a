import { foldObjectName } from './fold-case.ts';

export interface Principal {
  /** Spelt as in the users file, or as in the credentials where the engine checks. */
  readonly name: string;
  /** Identity at an engine that is sent its login. */
  readonly forwardedAs: string;
  /** Name for its part of all limits. */
  readonly owner: string;
}

/** No login name holds a colon (RFC 7617 §2), so no name in UTF-8 looks like this. */
const LATIN1 = 'iso-8859-1:';
/** To an engine it differs from the same letters in UTF-8. */
export const inLatin1 = (name: string): string => LATIN1 + name;

export const principalOf = (name: string, forwardedAs = name): Principal =>
  Object.freeze({ name, forwardedAs, owner: ownerOf(name) });

/** One owner for all spellings that an engine might take for one user. */
export function ownerOf(name: string): string {
  const readable = name.startsWith(LATIN1) ? name.slice(LATIN1.length) : name;
  return foldObjectName(readable) || readable;
}

export type Credentials = Readonly<Record<'name' | 'password', string>>;
export const basicOf = (bytes: Buffer) => `Basic ${bytes.toString('base64')}`;
/** A login as a header Authorization (RFC 7617). */
export const basicAuthorization = ({ name, password }: Credentials): string =>
  basicOf(Buffer.from(`${name}:${password}`));
