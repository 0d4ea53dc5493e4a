import { isLongName, LONGEST_NAME } from '../common/fold-case.ts';

/** Where an XMLA request is addressed to, read from its target. */
export interface XmlaAddress {
  readonly project: string | undefined;
  /** What follows the `?`. */
  readonly search: string;
}

/** What a request target below /mdx/xmla asks for; of `clear-cache`: interface document §4.3. */
export type XmlaPath =
  | ({ readonly kind: 'xmla' } & XmlaAddress & Likeness)
  | { readonly kind: 'clear-cache'; readonly project: string | undefined }
  | ({ readonly kind: 'not-found' } & Likeness)
  | ({ readonly kind: 'bad-project'; readonly message: string } & Likeness);

interface Likeness {
  /** Set when the path ends in `clearCache` in any letter case: its sender may mean a purge. */
  readonly likeClearCache?: true;
}

const PREFIX = '/mdx/xmla';
const CLEAR = 'clearCache';

/**
 * Reads a request target (RFC 9112 §3.2, origin-form or absolute-form), decoded once, segment by segment, so that a
 * `%2F` belongs to the project's name. Undefined when it is not below /mdx/xmla.
 */
export function readXmlaPath(target: string): XmlaPath | undefined {
  const originForm = target.replace(/^[a-z][a-z0-9+.-]*:\/\/[^/?#]*/i, '');
  const [path = '', ...rest] = originForm.split('?');
  if (path !== PREFIX && !path.startsWith(`${PREFIX}/`)) return undefined;
  const search = rest.join('?');
  const below = path.slice(PREFIX.length).replace(/\/$/, '');
  if (below === '') return { kind: 'xmla', project: undefined, search };

  const segments = below.split('/').slice(1).map(readSegment);
  const [first, second] = segments.map(({ name }) => name);
  const isLike = segments.at(-1)?.name.toLowerCase() === CLEAR.toLowerCase();
  const likeness: Likeness = isLike ? { likeClearCache: true } : {};
  const mistake = segments.find((segment) => segment.mistake !== undefined)?.mistake;
  if (mistake !== undefined) {
    const message = `The project name in the path ${mistake}. Allowed is any percent-encoded UTF-8 name of up to ${LONGEST_NAME} bytes except "", "." and "..", without control characters.`;
    return { kind: 'bad-project', message, ...likeness };
  }
  if (segments.length === 2 && second === CLEAR) return { kind: 'clear-cache', project: first };
  if (segments.length !== 1) return { kind: 'not-found', ...likeness };
  if (first === CLEAR) return { kind: 'clear-cache', project: undefined };
  return { kind: 'xmla', project: first, search, ...likeness };
}

function readSegment(segment: string): { name: string; mistake: string | undefined } {
  if (/[^\x21-\x7e]/.test(segment)) return { name: '', mistake: 'is not percent-encoded' };
  try {
    const name = decodeURIComponent(segment);
    return { name, mistake: mistakeIn(name) };
  } catch {
    return { name: '', mistake: 'is not well-formed percent-encoding of UTF-8' };
  }
}

function mistakeIn(name: string): string | undefined {
  if (name === '') return 'is empty';
  if (name === '.' || name === '..') return `is "${name}"`;
  // An engine or proxy that decodes `%2F` first would climb the path, or purge. Some drop what follows a semicolon.
  const parts = name.split(/[/\\]/).map((part) => part.split(';', 1)[0] ?? '');
  if (parts.includes('.') || parts.includes('..')) return 'holds "." or ".." between slashes';
  if (parts.length > 1 && parts.findLast((part) => part !== '') === CLEAR) {
    return 'ends in a slash and clearCache';
  }
  if (/\p{Cc}/u.test(name)) return 'holds a control character';
  if (!isLongName(name)) return undefined;
  return `is longer than ${LONGEST_NAME} bytes, as it is or with its letters in their plain form`;
}
