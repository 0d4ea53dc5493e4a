import { foldCase } from '../fold-case.ts';

/** Query parameters that name a login to some servers; a client could smuggle another identity in them. */
const IDENTITY_PARAMETERS: ReadonlySet<string> = new Set(['username', 'password', 'userid']);

/** One `name=value` of a query, exactly as it was sent. */
export type QueryParameter = string;

/** The name of a parameter, decoded. */
export function parameterName(parameter: QueryParameter): string {
  return [...new URLSearchParams(parameter).keys()][0] ?? '';
}

/**
 * The query parameters that may be forwarded, in their order and exact spelling. Those that name a login are
 * left out, however their names are spelt (letter case in the widest sense, percent-encoding).
 * @param search what follows the `?`; '' without one
 */
export function forwardedQuery(search: string): readonly QueryParameter[] {
  return search
    .split('&')
    .filter((piece) => piece !== '' && !IDENTITY_PARAMETERS.has(foldCase(parameterName(piece))));
}
