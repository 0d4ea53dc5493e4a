import { hash } from 'node:crypto';
import type { Circumstances } from './circumstances.ts';
import { type Gap, type Gaps, IN_IGNORED_GAP, IN_SESSION_GAP, startOf } from './gaps.ts';

/** Where bodies have their gaps, under which circumstances. */
export interface Layout {
  readonly gaps: Gaps;
  /** Digest of both. */
  readonly prefix: Buffer;
  used: number;
}

/** Most gaps first: a layout with fewer fits more bodies, and is seldom theirs. */
export type Layouts = Layout[];

/** Bodies of one client differ in properties, session and lengths of ids. */
const MAX_LAYOUTS = 16;
export const LAYOUT_BYTES = { own: 250, gap: 64 } as const;
const PREFIX = 32;
/** Longer bodies (bytes) are named by a digest, which holds no text. */
export const MOST_TEXT = 64 * 1024;
const scratch = Buffer.alloc(PREFIX + MOST_TEXT);

export const layoutOf = (circumstances: Circumstances, gaps: Gaps): Layout => ({
  gaps,
  prefix: hash('sha256', JSON.stringify([circumstances, gaps]), 'buffer'),
  used: 0,
});

/**
 * Names all bodies that differ in these gaps alone: Latin-1 with zeros in the gaps, or the SHA-256
 * of that. Undefined where a gap holds what it may not.
 */
export function nameOf(body: Buffer, { prefix, gaps: { session, ids } }: Layout) {
  const end = PREFIX + body.length;
  const isText = body.length <= MOST_TEXT;
  const whole = isText ? scratch : Buffer.allocUnsafe(end);
  whole.set(prefix, 0);
  whole.set(body, PREFIX);
  if (session !== undefined && !clear(whole, end, session, IN_SESSION_GAP)) return undefined;
  for (const gap of ids) if (!clear(whole, end, gap, IN_IGNORED_GAP)) return undefined;
  return isText ? whole.toString('latin1', 0, end) : hash('sha256', whole, 'base64url');
}

/** Returns false where another letter stands in the gap, or the body is too short. */
function clear(whole: Buffer, end: number, gap: Gap, letters: Uint8Array): boolean {
  const start = PREFIX + startOf(gap, end - PREFIX);
  if (start < PREFIX || start + gap.length > end) return false;
  for (let i = start; i < start + gap.length; i += 1) {
    if (letters[whole[i] ?? 0] !== 1) return false;
    whole[i] = 0;
  }
  return true;
}

/** Returns whether it is new there. */
export function addLayout(layouts: Layouts, layout: Layout): boolean {
  if (layouts.some(({ prefix }) => prefix.equals(layout.prefix))) return false;
  if (layouts.length === MAX_LAYOUTS) {
    const unused = layouts.reduce((one, other) => (other.used < one.used ? other : one));
    layouts.splice(layouts.indexOf(unused), 1);
  }
  layouts.push(layout);
  layouts.sort((one, other) => other.gaps.ids.length - one.gaps.ids.length);
  return true;
}
