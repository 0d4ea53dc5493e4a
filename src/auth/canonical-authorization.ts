import { parseBasicCredentials } from './basic-credentials.ts';

/**
 * Basic credentials in the one spelling that every server reads: some take a header that is spelt otherwise, by its
 * scheme or its spaces, for none, and answer as to nobody.
 * @returns undefined for what is no Basic credentials
 */
export function canonicalAuthorization(authorization: string | undefined): string | undefined {
  const credentials = parseBasicCredentials(authorization ?? '');
  return credentials.ok ? basicAuthorization(credentials) : undefined;
}

export function basicAuthorization(credentials: {
  readonly name: string;
  readonly password: string;
}): string {
  const { name, password } = credentials;
  return `Basic ${Buffer.from(`${name}:${password}`).toString('base64')}`;
}
