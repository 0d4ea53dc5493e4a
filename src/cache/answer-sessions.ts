import { type AnswerSession, LONGEST_HEADER_BYTES } from '../xmla/answer/answer-reader.ts';
import { watchAnswer } from '../xmla/answer/watch-answer.ts';
import type { Cut, StoredAnswer } from './stored-answer.ts';
import type { AnswerHead, QuerySession } from './query.ts';

/** Header by which SSAS and its clients name a session, beside the SOAP header. */
export const SESSION_HEADER = 'x-as-sessionid';

/**
 * Calls `begun` once for each session in an answer, with those before it, which may be the same.
 * Takes each piece before the client does, and nothing after the last.
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
    const first = tell(sessionHeaderOf(head));
    if (piece === undefined) reader.end();
    else reader.write(piece);
    return first === undefined ? tell(reader.id()) : first.then(() => tell(reader.id()));
  };
}

/** Part of every name of a session element; in UTF-16 a zero stands beside each letter. */
const NAME = Buffer.from('Session');
const NOTHING = Buffer.alloc(0);

/** Finds the session in the SOAP header; parses only bodies that hold the name. */
export function sessionReader({ headers }: Pick<AnswerHead, 'headers'>) {
  let watch: ReturnType<typeof watchAnswer> | undefined;
  let passed: Buffer = NOTHING;
  let isNameless = false;
  const done = () => isNameless || watch?.headerRead === true;

  return {
    id: () => watch?.session?.id,
    done,
    /** Takes the decoded body. May keep the bytes until it is `done`. */
    write(piece: Buffer): void {
      if (done()) return;
      if (watch !== undefined) return watch.write(piece);
      const from = Math.max(0, passed.length - NAME.length);
      passed = passed.length === 0 ? piece : Buffer.concat([passed, piece]);
      if (passed.includes(NAME, from) || passed.includes(0, from)) {
        watch = watchAnswer({ contentType: headers['content-type'] });
        watch.write(passed);
      } else isNameless = passed.length > LONGEST_HEADER_BYTES;
    },
    /** Call behind the last byte: many short pieces may be read only now. */
    end(): void {
      if (!done()) watch?.end();
    },
  };
}

export function refuseBySessionHeader(own: QuerySession | undefined, head: AnswerHead) {
  const id = own && sessionHeaderOf(head);
  return id === undefined || id === own?.id ? undefined : 'session-in-answer';
}

/**
 * Cuts the id of the caller's session, which leaves a gap, or all of a session that the engine
 * began. Undefined when the answer is the caller's alone.
 */
export function sessionCut(
  own: QuerySession | undefined,
  head: AnswerHead,
  session: AnswerSession | undefined,
): { cut?: Cut; shown: Pick<StoredAnswer, 'session' | 'sessionHeader'> } | undefined {
  const sessionHeader = own !== undefined && sessionHeaderOf(head) !== undefined;
  const shown = { sessionHeader, session: undefined };
  if (session === undefined) return { shown };
  if (!session.plain) return undefined;
  const { value, element, encoding } = session;
  if (own === undefined) return { shown, cut: { ...element, leavesGap: false } };
  if (session.id !== own.id) return undefined;
  const gap = { at: value.start, encoding };
  return { shown: { sessionHeader, session: gap }, cut: { ...value, leavesGap: true } };
}

/** Joins several, which no engine sends, into an id that no client has. */
function sessionHeaderOf({ headers }: AnswerHead): string | undefined {
  const value = headers[SESSION_HEADER];
  return Array.isArray(value) ? value.join(', ') : value;
}
