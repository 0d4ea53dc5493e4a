import { isAscii } from 'node:buffer';
import { hidesLetters, lettersOf } from './session-ids.ts';
import { foldName, foldToFind } from '../names.ts';
import { IDENTITY } from './property-policy.ts';
import type { RequestEncoding, RequestReading } from './read-request.ts';
import type { XmlElement } from '../../xml/xml-scanner.ts';
import { decodeText } from '../../xml/text-encoding.ts';

type NextTurn = () => Promise<unknown> | undefined;

const SECURITY = foldName('Security');
/** The longest spelling of a name that counts; folding makes no name shorter. */
const LONGEST_NAME = 64;
/** Searching more would take too long; no client's query has so many. */
const MOST_TAGS = 200_000;
const TAGS_A_TURN = 8_192;
const PLAIN_NAME = /^[A-Za-z0-9._:-]+$/;

/**
 * Tells whether a request asks for the rights of another identity than its login, or could hide
 * that it does: by WS-Security, or by a property of {@link IDENTITY} anywhere in the envelope, in
 * any namespace and letter case. An empty property asks for nothing; some clients always send it.
 * A body that cannot be parsed is searched as text. One with other letters could hide all.
 */
export async function asksForOtherIdentity(
  body: Uint8Array,
  contentType: string | undefined,
  reading: RequestReading,
  turn: NextTurn,
): Promise<boolean> {
  if (body.byteLength === 0) return false;
  if (reading.kind === 'understood' && isSure(reading.encoding, body)) {
    return elementAsks(reading.root);
  }
  const decoded = decodeText(body, contentType);
  // No XML holds zero bytes.
  if (decoded === undefined || !isSure(decoded.encoding, body) || decoded.utf8.includes(0)) {
    if (hidesLetters(body, contentType)) return true;
    return (await tagsIn(lettersOf(body), UNDECODED_TAG, mayBeSuspicious, turn))?.length !== 0;
  }
  const text = decoded.utf8.toString();
  // Without a `<` in front it may be anything, also XML in EBCDIC that happens to be UTF-8.
  if (!/^\uFEFF?[ \t\r\n]*</.test(text)) return true;
  const suspicions = await tagsIn(text, TAG, isSuspicious, turn);
  if (suspicions === undefined) return true;
  if (suspicions.length === 0) return false;
  if (reading.kind === 'not-understood' && reading.root) return elementAsks(reading.root);
  return suspicions.some((at) => !isEmptyAt(text, at));
}

/** An engine may read as UTF-8 a body that claims ISO-8859-1 or another encoding. */
const isSure = (encoding: RequestEncoding, body: Uint8Array) =>
  (encoding !== 'iso-8859-1' && encoding !== 'other') || isAscii(body);

function elementAsks(element: XmlElement): boolean {
  const { local, text, hasCData, attributes, children } = element;
  const name = foldToFind(local);
  if (name === SECURITY) return true;
  const isEmpty = text === '' && !hasCData && attributes.length === 0 && children.length === 0;
  return (IDENTITY.has(name) && !isEmpty) || children.some(elementAsks);
}

/** Finds the tags with a name that counts, also in comments and CDATA; undefined for too many. */
async function tagsIn(
  text: string,
  tag: RegExp,
  counts: (name: string) => boolean,
  turn: NextTurn,
) {
  const found: number[] = [];
  let tags = 0;
  for (const { 1: name = '', index } of text.matchAll(tag)) {
    tags += 1;
    if (tags > MOST_TAGS) return undefined;
    if (tags % TAGS_A_TURN === 0) await turn();
    if (counts(name)) found.push(index);
  }
  return found;
}

/** A start tag to the end of its name; XML 1.1 also counts U+0085 as white space. */
const TAG = /<([^\s\u0085<>/]+)/g;
/** A start tag in an unknown encoding: only white space that all encodings share. */
const UNDECODED_TAG = /<([^ \t\r\n<>/]+)/g;

function isSuspicious(name: string): boolean {
  const local = name.slice(name.lastIndexOf(':') + 1);
  if (local.length > LONGEST_NAME) return false;
  const folded = foldName(local);
  return IDENTITY.has(folded) || folded === SECURITY;
}

function isEmptyAt(text: string, at: number): boolean {
  const spelt = /^<([^\s<>/]+)(?:[ \t\r\n]*\/>|><\/\1[ \t\r\n]*>)/.exec(text.slice(at, at + 256));
  return spelt !== null && !foldName(spelt[1] ?? '').endsWith(SECURITY);
}

/** Bytes beyond ASCII have an unknown meaning, so a name must not contain them. */
function mayBeSuspicious(name: string): boolean {
  return isSuspicious(name) || !(/^[?!]/.test(name) || PLAIN_NAME.test(name));
}
