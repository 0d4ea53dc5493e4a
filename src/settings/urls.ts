/** Kinds of URLs that several sections share parts of. */
import type { Kind } from './kinds.ts';
import { SECRET_MASK } from './problems.ts';

export const PROJECT_PLACE = '{project}';
const HTTP_URL = /^https?:\/\/[^/?#@\\\s\p{Cc}{}]+(?<path>\/[^?#\\\s\p{Cc}]*)?$/iu;
// A brace, or a dot segment, also percent-encoded: the URL class would climb the path and lose segments on the way.
const BAD_SEGMENT = /[{}]|^(?:\.|%2e){1,2}$/i;

/** Accepts an http:// or https:// URL in which {project} may stand once. */
export function isServerUrl(text: string): boolean {
  const match = HTTP_URL.exec(text);
  if (match === null) return false;
  const segments = (match.groups?.['path'] ?? '').split('/');
  const fixed = segments.filter((segment) => segment !== PROJECT_PLACE);
  const hasBad = fixed.some((segment) => BAD_SEGMENT.test(segment));
  return segments.length <= fixed.length + 1 && !hasBad && URL.canParse(text);
}

const DATABASE_URL =
  /^postgres(?:ql)?:\/\/[^/?#@:\\\s\p{Cc}]+(?::[^/?#@\\\s\p{Cc}]*)?@[^/?#@\\\s\p{Cc}]+\/[^/?#\\\s\p{Cc}]+$/iu;
export const isDatabaseUrl = (text: string) => DATABASE_URL.test(text) && URL.canParse(text);

export const masked = (url: string) =>
  url.replace(/^([^:/]+:\/\/[^:@/]*):.*@/s, `$1:${SECRET_MASK}@`);
export const MASKED_URL: Partial<Kind<string>> = { hides: () => true, write: masked };

const MOST_URLS = 16;
/** One URL, or a list of different ones that are alike in what `traitOf` says of them. */
export function oneOrMore(
  one: Kind<string>,
  which: string,
  traitOf: (url: string) => unknown,
): Kind<readonly string[]> {
  return {
    ...one,
    type: 'URL or list of URLs',
    allowed: `${one.allowed}; or a list of up to ${MOST_URLS} different ones${which}`,
    read(input, reading) {
      const urls = [input].flat().map((url) => one.read(url, reading));
      const right = urls.filter((url) => url !== undefined);
      const alike = new Set(right.map(traitOf)).size === 1;
      const differ = new Set(right).size === urls.length;
      return alike && differ && urls.length <= MOST_URLS ? right : undefined;
    },
    write: (urls) => (urls.length > 1 ? urls.map(one.write) : one.write(urls[0] ?? '')),
  };
}
