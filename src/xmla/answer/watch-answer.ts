import { isBlank } from '../../xml/start-tag.ts';
import type { TagReader } from '../../xml/start-tag.ts';
import { SOAP } from '../names.ts';
import { answerReader, CHILD, envelopeFrame, LONGEST_WAIT, Refused } from './answer-reader.ts';
import type { AnswerSession } from './answer-reader.ts';
import { inspectAnswer } from './inspect-answer.ts';

export type WatchedAnswer = ReturnType<typeof watchAnswer>;

/** Leaves the scanner, when nothing more is to be learnt. Made once: it stands at no place. */
const STOP = new Refused('answer-shape');
function stop(): never {
  throw STOP;
}

/**
 * Reads an answer that is merely passed through, as far as there is something to be learnt of it: which session its
 * SOAP header names, and whether it is a Fault and nothing else. It keeps nothing of the body, and reads on behind
 * the header only in a Fault.
 *
 * @param answer.contentType the Content-Type as it came
 */
export function watchAnswer(answer: { readonly contentType: string | undefined }) {
  let size = 0;
  /** true when the rest cannot tell anything, and is not read */
  let done = false;
  let depth = 0;
  let faults = 0;
  const frame = envelopeFrame();

  function open(tag: TagReader): void {
    depth += 1;
    if (depth < CHILD && !frame.fits(tag, depth)) stop();
    if (depth !== CHILD) return;
    if (frame.inHeader) frame.beginsSession(tag);
    else {
      faults += 1;
      if (faults > 1 || tag.local !== 'Fault' || tag.uri !== SOAP) stop();
    }
  }

  function close(start: number, end: number): void {
    if (depth <= CHILD) frame.close(depth, start, end);
    depth -= 1;
  }

  function text(bytes: Buffer, from: number, to: number): void {
    if (depth < CHILD && !frame.inHeader && !isBlank(bytes, from, to)) stop();
  }

  const reader = answerReader(answer.contentType, { open, text, close, doctype: stop });

  /** Nothing that was seen so far is believed unless the header was over. */
  function readHeader(): void {
    if (watched.headerRead) return;
    const { headerRead, sessions, session } = frame;
    const isOne = headerRead && sessions === 1 && session !== undefined;
    if (isOne && session.element.end <= LONGEST_WAIT) watched.session = reader.inBytes(session);
    done ||= !headerRead && size > LONGEST_WAIT;
    watched.headerRead = headerRead || done;
  }

  // No getter: see `textDecoder`.
  const watched = {
    /** Feeds the next bytes of the body, without a content coding. They may be reused afterwards. Never throws. */
    write(chunk: Uint8Array): void {
      if (done) return;
      size += chunk.length;
      done = reader.write(chunk) !== undefined;
      readHeader();
    },
    /** After the last byte of a body that came whole. Never throws. */
    end(): void {
      if (watched.faultOnly !== undefined) return;
      done ||= reader.end() !== undefined;
      readHeader();
      watched.faultOnly = !done && faults === 1;
      watched.headerRead = true;
    },
    /** True as soon as nothing more can be learnt of the SOAP header: it is over, or there is none. */
    headerRead: false,
    /**
     * The session that the SOAP header names; undefined before the header was read, for a header that names more than
     * one, and where its end was not seen.
     */
    session: undefined as AnswerSession | undefined,
    /**
     * True exactly when the answer was whole and well-formed, and its SOAP body holds a SOAP Fault and nothing else.
     * undefined before `end`.
     */
    faultOnly: undefined as boolean | undefined,
  };
  return watched;
}

/** What an engine said to a login by its answer to a Discover. */
export type LoginAnswer = 'accepted' | 'rejected' | 'unavailable';

/**
 * Reads a whole answer to a Discover for what it says of the login. Engines refuse one by 401 or 403, or by a Fault
 * with status 200 (MDX for Kylin, Mondrian). Only a whole, well-formed rowset in a DiscoverResponse without any
 * error accepts it; whatever is neither, a page of a proxy or half an answer, says nothing.
 *
 * @param answer.body without content coding
 */
export function readLoginAnswer(answer: {
  readonly status: number;
  readonly contentType: string | undefined;
  readonly body: Buffer;
}): LoginAnswer {
  if (answer.status === 401 || answer.status === 403) return 'rejected';
  if (answer.status !== 200) return 'unavailable';
  const watched = watchAnswer(answer);
  watched.write(answer.body);
  watched.end();
  if (watched.faultOnly === true) return 'rejected';
  const inspector = inspectAnswer({ ...answer, method: 'Discover', errorsAsData: [] });
  inspector.write(answer.body);
  return inspector.end().ok ? 'accepted' : 'unavailable';
}
