import { crc32 } from 'node:zlib';
import type { EngineRequest } from '../support/engine-request.ts';
import type { Made, SessionModel } from '../support/session-model.ts';
import type { Stamp } from '../support/stamps.ts';
import type { Received } from './client.ts';
import type { Judgement, Verdict } from './outcome.ts';
import { OVERLOADED } from './weather.ts';

/** What the engine would say to a request at the moment when it was sent. */
export interface Expected {
  readonly made: Made;
  /** The session that the request names, as the client knows it; '' without one. */
  readonly session: string;
  /** The version of the data that a purge before had made the oldest that may be shown. */
  readonly leastData: number;
  /** Whether the answer may have been computed for another person. */
  readonly isShared: boolean;
}

/**
 * Holds an answer against what the engine would say. Nothing of the gateway is asked or believed.
 * @param write writes an answer as the engine does
 */
export function judge(
  expected: Expected,
  received: Received,
  write: SessionModel['write'],
): Judgement {
  const { status, head, broken, cacheStatus } = received;
  const text = head.toString();
  const told = wordsOf(received, text);
  const is = (verdict: Verdict, words = told): Judgement => ({ verdict, words });
  if (status === 0) return is('refused');
  if (text.includes(OVERLOADED)) return is('right', `${told}, as the engine`);
  if (status !== 200) return is('refused');
  if (broken !== undefined) return is('cut', `${broken} after ${received.length} bytes`);
  const isFault = /<(?:[\w-]+:)?Fault[ >]/.test(text);
  if (isFault) return is('refused', `${told}: ${faultIn(text)}`);
  const { made, session, isShared, leastData } = expected;
  const stamp = stampIn(text);
  const computedIn = textOf('COMPUTED_IN', text);
  const shown = unescapeText(/<Session\b[^>]* SessionId="([^"]*)"/.exec(text)?.[1]);
  if (shown !== undefined && session !== '' && shown !== session) {
    return is('wrong', `shows the session ${shown} of another`);
  }
  if (made.stamp !== undefined && stamp !== undefined) {
    const other = firstDifference(made.stamp, stamp, isShared);
    if (other !== undefined) return is('wrong', other);
    if (made.stamp.created.length > 0 && computedIn !== session) {
      return is('wrong', `computed in the session ${computedIn}, not in its own changed one`);
    }
  }
  const right = write({
    ...made,
    shown,
    ...(stamp !== undefined && { stamp, computedIn: computedIn ?? '' }),
  });
  const bytes = Buffer.from(right.text);
  if (bytes.length !== received.length || crc32(bytes) !== received.crc) {
    return is('cut', `${received.length} bytes that are not the ${bytes.length} of the engine`);
  }
  const mark = wrongMark(cacheStatus);
  if (mark !== undefined) return is('wrong', mark);
  if (stamp !== undefined && stamp.data < leastData) {
    return is('old', `data ${stamp.data}, purged up to ${leastData}, ${cacheStatus}`);
  }
  return is('right');
}

/** Which part of an answer belongs to another user, session or question. */
function firstDifference(right: Stamp, got: Stamp, isShared: boolean): string | undefined {
  for (const part of Object.keys(right) as (keyof Stamp)[]) {
    if (part === 'data' || (part === 'user' && isShared)) continue;
    const [expected, found] = [right[part], got[part]].map((value) => JSON.stringify(value));
    if (expected !== found) return `${part} is ${found}, not ${expected}`;
  }
  return undefined;
}

/** An answer past its ttl says so, and no other does. */
function wrongMark(cacheStatus: string): string | undefined {
  const ttl = /\bttl=(-?\d+)/.exec(cacheStatus)?.[1];
  const isMarked = /\bdetail=engine-away\b/.test(cacheStatus);
  const isOver = ttl !== undefined && (Number(ttl) < 0 || ttl === '-0');
  return isMarked === isOver ? undefined : `marked as ${cacheStatus}`;
}

/** What was answered, in short: status, and the word of the gateway or who else spoke. */
function wordsOf({ status, cacheStatus, broken }: Received, text: string): string {
  if (status === 0) return `no answer: ${broken}`;
  const detail = /detail=([\w-]+)/.exec(cacheStatus)?.[1];
  const hit = /\bhit\b/.test(cacheStatus) ? 'hit' : /fwd=(\w+)/.exec(cacheStatus)?.[1];
  const proxy = /nginx/.test(text) ? 'nginx' : undefined;
  const stored = /\bstored\b/.test(cacheStatus) ? 'stored' : undefined;
  return [status, hit, stored, detail ?? proxy].filter((word) => word !== undefined).join(' ');
}

const faultIn = (text: string): string =>
  (textOf('faultstring', text) ?? '').replaceAll(/[\da-f]{8}-[\da-f-]+/g, '…').slice(0, 60);

function stampIn(text: string): Stamp | undefined {
  try {
    return JSON.parse(textOf('STAMP', text) ?? '') as Stamp;
  } catch {
    // Without one, or with half of one: the bytes tell.
    return undefined;
  }
}

const textOf = (name: string, text: string): string | undefined =>
  unescapeText(new RegExp(`<${name}\\b[^>]*>([^<]*)</${name}>`).exec(text)?.[1]);

const CHARACTERS: Readonly<Record<string, string>> = {
  '&lt;': '<',
  '&gt;': '>',
  '&quot;': '"',
  '&amp;': '&',
};

function unescapeText(text: string | undefined): string | undefined {
  return text?.replaceAll(/&(?:#(\d+)|\w+);/g, (whole, code?: string) =>
    code === undefined ? (CHARACTERS[whole] ?? whole) : String.fromCodePoint(Number(code)),
  );
}

/**
 * The request as the engine reads it behind a gateway: of the program it is told the class, and the login only where it is
 * forwarded.
 */
export function asTheEngineReads(request: EngineRequest, forwardsLogin: boolean): EngineRequest {
  const program = /^[^/ (]*/.exec(request.headers['user-agent'] ?? '')?.[0] ?? '';
  return {
    ...request,
    user: forwardsLogin ? request.user : '',
    headers: { ...request.headers, 'user-agent': program },
  };
}
