import { isUtf8 } from 'node:buffer';
import { parse } from 'basic-auth';

/** Longest header value that is read, in characters. */
export const MAX_HEADER_LENGTH = 4096;

/** Well-formed credentials, exactly as they were sent. */
export interface Credentials {
  readonly name: string;
  readonly password: string;
}

const BASIC = /^ *basic +([A-Za-z0-9+/]+={0,2}) *$/i;

/** Cc holds the CTL of RFC 5234, forbidden by RFC 7617 §2, and the C1 controls, forbidden by RFC 8265. */
const CONTROL = /\p{Cc}/u;

/**
 * Reads a header `Authorization` as Basic credentials (RFC 7617) in UTF-8.
 *
 * Stricter than the npm package that takes it apart: the token is padded standard base64 and nothing else
 * (RFC 4648 §4), the bytes are valid UTF-8, the user name is not empty, and neither part holds a control
 * character. So one pair of name and password has one token, and what is compared is what was sent. Names
 * are kept as spelt: no trimming, no case folding, no Unicode normalisation. The password is everything
 * after the first colon.
 * @returns undefined for another scheme, and for what cannot be read
 */
export function parseBasicCredentials(authorization: string): Credentials | undefined {
  if (authorization.length > MAX_HEADER_LENGTH) return undefined;
  const token = BASIC.exec(authorization)?.[1];
  if (token === undefined || !isExactUtf8(token)) return undefined;
  const { name = '', pass: password = '' } = parse(authorization) ?? {};
  return name === '' || CONTROL.test(name + password) ? undefined : { name, password };
}

/** Node's decoder skips what it does not know; encoding again shows whether it skipped anything. */
function isExactUtf8(token: string): boolean {
  const bytes = Buffer.from(token, 'base64');
  return bytes.toString('base64') === token && isUtf8(bytes);
}

/**
 * Basic credentials in the one spelling that every server reads: some take a header that is spelt otherwise, by its
 * scheme or its spaces, for none, and answer as to an anonymous client.
 * @returns undefined for what is no Basic credentials
 */
export function canonicalAuthorization(authorization = ''): string | undefined {
  const credentials = parseBasicCredentials(authorization);
  return credentials && basicAuthorization(credentials);
}

export function basicAuthorization({ name, password }: Credentials): string {
  return `Basic ${Buffer.from(`${name}:${password}`).toString('base64')}`;
}
