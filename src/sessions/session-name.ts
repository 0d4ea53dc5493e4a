import { createHash } from 'node:crypto';
import { foldCase } from '../fold-case.ts';
import type { SessionName } from './sessions.ts';

/**
 * Under which a session is noted: a digest of its id alone, in one spelling for all that an engine could take for
 * the same (a GUID with or without braces, in any letter case). The place is no part of it, since two places may be
 * one engine. So no change is ever noted beside the session that it concerns; two sessions that meet under one name
 * cost their users the cache, and nothing else.
 * @returns SHA-256, base64url: whoever has an id may act in that session, and ids may be long
 */
export function sessionName({ id }: SessionName): string {
  return digest(withoutBraces(foldCase(id.normalize('NFKC'))));
}

/**
 * Place and id exactly as they are: only under these a session is ever taken for clean.
 * @returns SHA-256, base64url
 */
export function sessionSpelling({ place, id }: SessionName): string {
  // JSON keeps the two apart, and lone surrogates as they are.
  return digest(JSON.stringify([place, id]));
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
  return createHash('sha256').update(text).digest('base64url');
}
