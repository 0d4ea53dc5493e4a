import { type AnswerSession, LONGEST_WAIT } from '../xmla/answer/answer-reader.ts';
import { watchAnswer, type WatchedAnswer } from '../xmla/answer/watch-answer.ts';
import type { AnswerHead, QuerySession } from './query.ts';
import { ownBytes, type SessionPlace, type StoredAnswer } from './stored-answer.ts';

/** By which SSAS and its clients name a session, beside the SOAP header. */
export const SESSION_HEADER = 'x-as-sessionid';

/**
 * Tells of each session that one answer names, by its head or its body, once. An answer that names several may mean one
 * session by all of them, so a further one is told together with those before it.
 * @returns to be called with each piece before the client is given it, and without one after the last; undefined when
 *   there is nothing new to tell
 */
export function tellSessions(
  head: AnswerHead,
  begun: (id: string, before: readonly string[]) => Promise<void>,
): (piece?: Buffer) => Promise<void> | undefined {
  const reader = sessionReader(head);
  const told: string[] = [];

  function tell(id: string | undefined): Promise<void> | undefined {
    if (id === undefined || id === '' || told.includes(id)) return undefined;
    told.push(id);
    return begun(id, told.slice(0, -1));
  }

  return (piece) => {
    const first = tell(sessionHeader(head));
    if (piece === undefined) reader.end();
    else reader.write(piece);
    return first === undefined ? tell(reader.id()) : first.then(() => tell(reader.id()));
  };
}

/** No answer names a session without it, save in UTF-16, where every sign of a tag has a zero beside it. */
const NAME = Buffer.from('Session');

/**
 * Finds the session that the SOAP header of an answer names. Reads as XML only what holds the name of the element: most
 * answers do not, and to look for it takes a hundredth of the time.
 */
export function sessionReader({ headers }: Pick<AnswerHead, 'headers'>) {
  let watch: WatchedAnswer | undefined;
  /** What does not hold the name so far. */
  let passed: Buffer = Buffer.alloc(0);
  let isNameless = false;
  const done = () => isNameless || watch?.headerRead === true;

  return {
    /** The id, as soon as it is known. */
    id: () => watch?.session?.id,
    /** Nothing more can be learnt. */
    done,
    /** The next bytes of the body, without a content coding. They may be looked at until `done`. */
    write(piece: Buffer): void {
      if (done()) return;
      if (watch !== undefined) return watch.write(piece);
      // The name may have begun before.
      const from = Math.max(0, passed.length - NAME.length);
      passed = passed.length === 0 ? piece : Buffer.concat([passed, piece]);
      if (passed.includes(NAME, from) || passed.includes(0, from)) {
        watch = watchAnswer({ contentType: headers['content-type'] });
        watch.write(passed);
      } else isNameless = passed.length > LONGEST_WAIT;
    },
    /** Behind the last byte: what was cut into many pieces may be read only now. */
    end(): void {
      if (!done()) watch?.end();
    },
  };
}

/**
 * What the head of an answer says of sessions may forbid to store it: another one than the caller's. Of one that
 * the engine began by itself no other client is told, and the rest of the answer is for all.
 */
export function refuseBySessionHeader(own: QuerySession | undefined, head: AnswerHead) {
  const id = own && sessionHeader(head);
  return id === undefined || id === own?.id ? undefined : 'session-in-answer';
}

/**
 * Takes the session out of an answer, so that others may be given it: the id of the caller's own, whose place
 * stays known, or all of one that the engine began by itself, which is shown to no other.
 * @param head one that `refuseBySessionHeader` lets pass
 * @param session what the inspection found in the body
 * @returns undefined when the answer belongs to the caller alone
 */
export function withoutSession(
  own: QuerySession | undefined,
  head: AnswerHead,
  body: Buffer,
  session: AnswerSession | undefined,
): Pick<StoredAnswer, 'body' | 'session' | 'sessionHeader'> | undefined {
  const sessionInHead = own !== undefined && sessionHeader(head) !== undefined;
  const shared = { sessionHeader: sessionInHead, session: undefined };
  if (session === undefined) return { ...shared, body };
  if (!session.plain) return undefined;
  if (own === undefined) return { ...shared, body: cutElement(body, session) };
  return session.id === own.id ? { ...shared, ...cutSession(body, session) } : undefined;
}

/** Takes the session id out from between its quotes, so that another can be put there. */
export function cutSession(
  body: Buffer,
  { value, encoding }: Pick<AnswerSession, 'value' | 'encoding'>,
): { body: Buffer; session: SessionPlace } {
  return {
    body: ownBytes([body.subarray(0, value.start), body.subarray(value.end)]),
    session: { at: value.start, encoding },
  };
}

/** Takes the whole element out. The header around it stays, also when nothing is left in it. */
export function cutElement(body: Buffer, { element }: Pick<AnswerSession, 'element'>): Buffer {
  return ownBytes([body.subarray(0, element.start), body.subarray(element.end)]);
}

/** The session that the head of an answer names; several, which no engine sends, as one that no client has. */
function sessionHeader({ headers }: AnswerHead): string | undefined {
  const value = headers[SESSION_HEADER];
  return Array.isArray(value) ? value.join(', ') : value;
}
