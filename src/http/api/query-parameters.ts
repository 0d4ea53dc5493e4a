import type { IncomingMessage } from 'node:http';
import { GatewayError } from '../../errors.ts';

/** The values of a query by name: a string, or all strings of a name that is given more than once. */
export type QueryParameters = Readonly<Record<string, string | readonly string[]>>;

/**
 * The query of a request, percent-decoded once, `+` as a space.
 * @throws GatewayError `bad-request` when it is not well-formed; nothing is guessed
 */
export function queryParameters({ url = '' }: Pick<IncomingMessage, 'url'>): QueryParameters {
  const begin = url.indexOf('?');
  const pieces = begin < 0 ? [] : url.slice(begin + 1).split('&');
  const values = new Map<string, string[]>();
  for (const piece of pieces.filter((text) => text !== '')) {
    const [name = '', ...rest] = piece.split('=');
    const key = decoded(name);
    const value = decoded(rest.join('='));
    const before = values.get(key);
    if (before === undefined) values.set(key, [value]);
    else before.push(value);
  }
  return Object.fromEntries(
    [...values].map(([key, [first = '', ...more]]) => [
      key,
      more.length === 0 ? first : [first, ...more],
    ]),
  );
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch {
    throw new GatewayError(
      'bad-request',
      'The query is not well-formed: %XX must be bytes of UTF-8.',
    );
  }
}
