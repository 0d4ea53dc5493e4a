import { isLongName, LONGEST_NAME } from '../common/fold-case.ts';

/** Where an XMLA request is addressed to, read from its target. */
export interface XmlaAddress {
  /** Decoded once. */
  readonly project: string | undefined;
  /** What follows the `?`. */
  readonly search: string;
}

/** What a request target below /mdx/xmla asks for. */
export type XmlaPath =
  /** `/mdx/xmla` or `/mdx/xmla/{project}`. */
  | ({ readonly kind: 'xmla' } & XmlaAddress & Likeness)
  /** `/mdx/xmla/clearCache` or `/mdx/xmla/{project}/clearCache` (interface document §4.3). */
  | { readonly kind: 'clear-cache'; readonly project: string | undefined }
  /** Below /mdx/xmla, but nothing is served there. */
  | ({ readonly kind: 'not-found' } & Likeness)
  | ({ readonly kind: 'bad-project'; readonly message: string } & Likeness);

interface Likeness {
  /** Set when the path ends in `clearCache` in any letter case: its sender may mean a purge. */
  readonly likeClearCache?: true;
}

const PREFIX = '/mdx/xmla';
const CLEAR = 'clearCache';

/**
 * Reads a request target (RFC 9112 §3.2, origin-form or absolute-form). Percent-encoding is removed once,
 * segment by segment, so that a `%2F` belongs to the project's name.
 * @returns undefined when the path is not below /mdx/xmla
 */
export function readXmlaPath(target: string): XmlaPath | undefined {
  const originForm = target.replace(/^[a-z][a-z0-9+.-]*:\/\/[^/?#]*/i, '');
  const [path = '', ...rest] = originForm.split('?');
  if (path !== PREFIX && !path.startsWith(`${PREFIX}/`)) return undefined;
  const search = rest.join('?');
  const below = path.slice(PREFIX.length).replace(/\/$/, '');
  if (below === '' && path.length <= PREFIX.length + 1) {
    return { kind: 'xmla', project: undefined, search };
  }

  const names: string[] = [];
  const segments = below.split('/').slice(1);
  const likeness = likenessOf(segments.at(-1) ?? '');
  for (const segment of segments) {
    const read = readSegment(segment);
    if (!read.ok) return { kind: 'bad-project', message: read.message, ...likeness };
    names.push(read.name);
  }
  const [first, second] = names;
  if (names.length === 2 && second === CLEAR) return { kind: 'clear-cache', project: first };
  if (names.length !== 1) return { kind: 'not-found', ...likeness };
  if (first === CLEAR) return { kind: 'clear-cache', project: undefined };
  return { kind: 'xmla', project: first, search, ...likeness };
}

/** @param segment the last one, as it was sent */
function likenessOf(segment: string): Likeness {
  const read = readSegment(segment);
  return read.ok && read.name.toLowerCase() === CLEAR.toLowerCase() ? { likeClearCache: true } : {};
}

type Segment =
  | { readonly ok: true; readonly name: string }
  | { readonly ok: false; readonly message: string };

function readSegment(segment: string): Segment {
  if (/[^\x21-\x7e]/.test(segment)) return bad('is not percent-encoded');
  let name: string;
  try {
    name = decodeURIComponent(segment);
  } catch {
    return bad('is not well-formed percent-encoding of UTF-8');
  }
  if (name === '') return bad('is empty');
  if (name === '.' || name === '..') return bad(`is "${name}"`);
  // An engine or proxy that decodes `%2F` before it looks at the path would climb it, or purge.
  // (Servlet containers leave away what follows a semicolon.)
  const parts = name.split(/[/\\]/).map((part) => part.split(';', 1)[0] ?? '');
  if (parts.includes('.') || parts.includes('..')) return bad('holds "." or ".." between slashes');
  if (parts.length > 1 && parts.findLast((part) => part !== '') === CLEAR) {
    return bad('ends in a slash and clearCache');
  }
  if (/\p{Cc}/u.test(name)) return bad('holds a control character');
  if (isLongName(name))
    return bad(
      `is longer than ${LONGEST_NAME} bytes, as it is or with its letters in their plain form`,
    );
  return { ok: true, name };
}

function bad(why: string): Segment {
  return {
    ok: false,
    message: `The project name in the path ${why}. Allowed is any percent-encoded UTF-8 name of up to ${LONGEST_NAME} bytes except "", "." and "..", without control characters.`,
  };
}
