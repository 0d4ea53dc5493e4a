import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Clock } from '../clock.ts';
import { GatewayError } from '../errors.ts';
import type { Emit } from '../events.ts';
import { isLongName, LONGEST_NAME } from '../fold-case.ts';
import { clearCacheShape, type ClearCacheHandler } from './clear-cache.ts';
import { unclearHead } from './request-checks.ts';
import { carriesBody } from './request-head.ts';
import { createXmlaClient } from './xmla-client.ts';

/** Where an XMLA request is addressed to, read from its target. */
export interface XmlaTarget {
  /** Decoded once. */
  readonly project: string | undefined;
  /** What follows the `?`. */
  readonly search: string;
}

/** Answers one XMLA request. Never rejects. */
export type XmlaHandler = (
  request: IncomingMessage,
  response: ServerResponse,
  target: XmlaTarget,
) => Promise<void>;

const NOTHING_HERE =
  'Nothing is served under this path; XMLA is at /mdx/xmla and /mdx/xmla/{project}.';
const MISSPELT =
  'Nothing was done: nothing is served under this path. Did you mean clearCache? It is at /mdx/xmla/clearCache and /mdx/xmla/{project}/clearCache, and its letter case counts.';

/**
 * Everything below /mdx/xmla, as one plain handler: false when the request is for another one. The path is
 * read here, not by Express, whose patterns know neither the difference between `%2F` and `/` nor the rule
 * that `clearCache` counts as the last whole segment only.
 */
export function createXmlaRoutes(options: {
  xmla: XmlaHandler;
  clearCache: ClearCacheHandler;
  clock: Clock;
  newId: () => string;
  emit: Emit;
}): (request: IncomingMessage, response: ServerResponse) => boolean {
  return (request, response) => {
    const path = readXmlaPath(request.url ?? '');
    if (path === undefined) return false;
    // Neither rejects; if one did all the same, its client must not wait for ever.
    const giveUp = () => void response.destroy();
    if (path.kind === 'clear-cache') {
      options.clearCache(request, response, path.project).catch(giveUp);
      return true;
    }
    // An engine may answer a misspelt clearCache by 200, which a scheduler would take for a purge.
    const meantClearing = path.likeClearCache === true && !carriesXml(request);
    const refusal = unclearHead(request) ?? refusalOf(path, meantClearing);
    if (refusal === undefined && path.kind === 'xmla') {
      options.xmla(request, response, path).catch(giveUp);
      return true;
    }
    const { newId, clock, emit } = options;
    const errorShape = meantClearing ? clearCacheShape(request) : 'soap-fault';
    createXmlaClient(request, response, { id: newId(), clock, emit, errorShape }).fail(refusal);
    return true;
  };
}

function refusalOf(
  path: Exclude<XmlaPath, { kind: 'clear-cache' }>,
  meantClearing: boolean,
): GatewayError | undefined {
  switch (path.kind) {
    case 'xmla':
      return meantClearing ? new GatewayError('not-found', MISSPELT) : undefined;
    case 'not-found':
      return new GatewayError('not-found', path.likeClearCache ? MISSPELT : NOTHING_HERE);
    case 'bad-project':
      return new GatewayError('bad-request', path.message);
  }
}

/** Whether a request is XMLA by its head; a project may have a name like clearCache. */
function carriesXml(request: IncomingMessage): boolean {
  const mediaType = request.headers['content-type']?.split(';', 1)[0] ?? '';
  return request.method === 'POST' && carriesBody(request) && /xml/i.test(mediaType);
}

/** What a request target below /mdx/xmla asks for. */
export type XmlaPath =
  /** `/mdx/xmla` or `/mdx/xmla/{project}`. */
  | ({
      readonly kind: 'xmla';
      readonly project: string | undefined;
      readonly search: string;
    } & Likeness)
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
