import { isBlank, type TagReader } from '../../xml/start-tag.ts';
import { SOAP } from '../names.ts';
import {
  answerReader,
  CHILD,
  envelopeFrame,
  LONGEST_HEADER_BYTES,
  Refused,
} from './answer-reader.ts';
import type { AnswerSession } from './answer-reader.ts';
import { inspectAnswer } from './inspect-answer.ts';

export type WatchedAnswer = ReturnType<typeof watchAnswer>;

/** Leaves the scanner when nothing more can be learnt. Made once: it needs no stack trace. */
const STOP = new Refused('answer-shape');
function stop(): never {
  throw STOP;
}

/**
 * Watches an answer that passes through for the session in its SOAP header, and for a Fault as its
 * only content. Keeps nothing of the body; behind the header it reads only a Fault.
 */
export function watchAnswer(answer: { readonly contentType: string | undefined }) {
  let size = 0;
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

  /** Believes nothing seen so far unless the header is over. */
  function readHeader(): void {
    if (watched.headerRead) return;
    const { headerRead, sessions, session } = frame;
    const isOne = headerRead && sessions === 1 && session !== undefined;
    if (isOne && session.element.end <= LONGEST_HEADER_BYTES)
      watched.session = reader.inBytes(session);
    done ||= !headerRead && size > LONGEST_HEADER_BYTES;
    watched.headerRead = headerRead || done;
  }

  // No getter: see `textDecoder`.
  const watched = {
    /** Takes bytes without content coding, which may be reused afterwards. Never throws. */
    write(chunk: Uint8Array): void {
      if (done) return;
      size += chunk.length;
      done = reader.write(chunk) !== undefined;
      readHeader();
    },
    end(): void {
      if (watched.faultOnly !== undefined) return;
      done ||= reader.end() !== undefined;
      readHeader();
      watched.faultOnly = !done && faults === 1;
      watched.headerRead = true;
    },
    headerRead: false,
    /** Undefined until the header is read, and for several sessions or an end not seen. */
    session: undefined as AnswerSession | undefined,
    /** True for a whole, well-formed answer whose body is one Fault; undefined before `end`. */
    faultOnly: undefined as boolean | undefined,
  };
  return watched;
}

export type LoginAnswer = 'accepted' | 'rejected' | 'unavailable';

/**
 * Reads the verdict on a login in an answer to a Discover, without content coding. Engines refuse
 * by 401 or 403, or by a Fault with status 200 (MDX for Kylin, Mondrian). Only a whole, well-formed
 * DiscoverResponse without an error accepts. All else says nothing: a proxy's page, half an answer.
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
