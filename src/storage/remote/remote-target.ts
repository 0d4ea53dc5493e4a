import { GatewayError } from '../../errors.ts';
import { parameterName } from '../../proxy/forwarded.ts';

/**
 * The path and query under which a remote server is asked, spelt as the client sent them, less what the
 * operation does not know: the server may read more than the interface names, such as another method or user.
 * @param url `storage.url`
 * @param below the request target below /api (RFC 9112 §3.2, origin-form or absolute-form)
 * @param known names of the operation's query parameters
 */
export function remoteTarget(url: string, below: string, known: readonly string[]): string {
  const base = new URL(url).pathname.replace(/\/+$/, '');
  const originForm = below.replace(/^[a-z][a-z0-9+.-]*:\/\/[^/?#]*/i, '');
  const [path = '', ...rest] = originForm.split('?');
  const search = rest
    .join('?')
    .split('&')
    .filter((parameter) => known.includes(parameterName(parameter)))
    // To some servers it separates parameters.
    .map((parameter) => parameter.replaceAll(';', '%3B'))
    .join('&');
  return `${base}/api${path}${search === '' ? '' : `?${search}`}`;
}

/**
 * Refuses what would lead out of its place in the path, at the remote server or at a proxy before it that
 * decodes `%2F`, or leaves away what follows a semicolon, before it looks for dots.
 * @param parameters of the path by name, decoded once
 * @throws GatewayError `bad-request`
 */
export function refuseClimbing(parameters: Readonly<Record<string, string>>): void {
  for (const [name, value] of Object.entries(parameters)) {
    const parts = value.split(/[/\\]/).map((part) => part.split(';', 1)[0]);
    if (!parts.some((part) => part === '.' || part === '..')) continue;
    throw new GatewayError(
      'bad-request',
      `${name}: must not be "." or "..", nor hold them between slashes.`,
    );
  }
}
