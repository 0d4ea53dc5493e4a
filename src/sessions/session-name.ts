import { hash } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { foldObjectName } from '../common/fold-case.ts';
import type { SessionName } from './sessions.ts';

/**
 * Under which a session is noted: a digest of its id alone, in one spelling for all that an engine could take for
 * the same (a GUID with or without braces, in any letter case). The place is no part of it, since two places may be
 * one engine. So no change is ever noted beside the session that it concerns; two sessions that meet under one name
 * cost their users the cache, and nothing else.
 * @returns SHA-256, base64url: an id gives the right to act in that session, and ids may be long
 */
export function sessionName({ id }: SessionName): string {
  return digest(withoutBraces(foldObjectName(id)));
}

/**
 * Place and id exactly as they are: only under these a session is ever taken for clean.
 * @returns SHA-256, base64url
 */
export function sessionSpelling({ place, id }: SessionName): string {
  // JSON keeps the two apart, and lone surrogates as they are.
  return digest(JSON.stringify([place, id]));
}

/** The two digests of one session's name. */
export interface SessionDigests {
  /** See {@link sessionName}. */
  readonly key: string;
  /** See {@link sessionSpelling}. */
  readonly spelling: string;
}

/** Ids whose digests are remembered; a session is asked for with each of its requests, and once more when one ends. */
const MAX_DIGESTED = 10_000;
/** Longer ids are digested each time (characters). Engines make ids of some forty. */
const LONGEST_REMEMBERED = 128;

/** Digests names of sessions (2 µs), and remembers those of the latest (0.2 µs). */
export function createSessionDigests(): (name: SessionName) => SessionDigests {
  const known = new LRUCache<string, SessionDigests & { readonly place: string }>({
    max: MAX_DIGESTED,
  });

  return (name) => {
    const { place, id } = name;
    const before = known.get(id);
    if (before?.place === place) return before;
    const digests = { key: sessionName(name), spelling: sessionSpelling(name), place };
    if (id.length <= LONGEST_REMEMBERED) known.set(id, digests);
    return digests;
  };
}

/** Not by a pattern, which would try every place in a long row of blanks anew. */
function withoutBraces(text: string): string {
  let [from, to] = [0, text.length];
  while (from < to && isOuter(text.charAt(from))) from += 1;
  while (from < to && isOuter(text.charAt(to - 1))) to -= 1;
  return text.slice(from, to);
}

function isOuter(character: string): boolean {
  return character === '{' || character === '}' || character.trim() === '';
}

function digest(text: string): string {
  return hash('sha256', text, 'base64url');
}
