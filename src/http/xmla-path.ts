import { isLongName, LONGEST_NAME } from '../common/fold-case.ts';

export interface XmlaAddress {
  readonly project: string | undefined;
  readonly search: string;
}

/** Meaning of a target below /mdx/xmla; for `clear-cache` see the interface document §4.3. */
export type XmlaPath =
  | ({ readonly kind: 'xmla' } & XmlaAddress & Likeness)
  | { readonly kind: 'clear-cache'; readonly project: string | undefined }
  | ({ readonly kind: 'not-found' } & Likeness)
  | ({ readonly kind: 'bad-project'; readonly message: string } & Likeness);

interface Likeness {
  /** Set for a path that ends in `clearCache` in any letter case: a purge may be meant. */
  readonly likeClearCache?: true;
}

const PREFIX = '/mdx/xmla';
const CLEAR = 'clearCache';

/**
 * Reads a request target (RFC 9112 §3.2, origin-form or absolute-form). Each segment is decoded
 * once, so that `%2F` belongs to a project's name. Undefined outside of /mdx/xmla.
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
  // A server that decodes `%2F` first would climb, or purge. Some drop the part behind a semicolon.
  const parts = name.split(/[/\\]/).map((part) => part.split(';', 1)[0] ?? '');
  if (parts.includes('.') || parts.includes('..')) return 'holds "." or ".." between slashes';
  if (parts.length > 1 && parts.findLast((part) => part !== '') === CLEAR) {
    return 'ends in a slash and clearCache';
  }
  if (/\p{Cc}/u.test(name)) return 'holds a control character';
  if (!isLongName(name)) return undefined;
  return `is longer than ${LONGEST_NAME} bytes, as it is or with its letters in their plain form`;
}
