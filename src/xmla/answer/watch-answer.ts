import { answerReader } from './answer-reader.ts';
import type { AnswerSession } from './answer-session.ts';
import { closeSession, isSession, openSession } from './answer-session.ts';
import type { TextSession } from './answer-session.ts';
import { SOAP } from '../namespaces.ts';
import { isBlank } from '../../xml/characters.ts';
import type { StartTag } from '../../xml/start-tag.ts';

export interface WatchedAnswer {
  /** Feeds the next bytes of the body, without a content coding. They may be reused afterwards. Never throws. */
  write(chunk: Uint8Array): void;
  /** After the last byte of a body that came whole. Never throws. */
  end(): void;
  /** True as soon as nothing more can be learnt of the SOAP header: it is over, or there is none. */
  readonly headerRead: boolean;
  /**
   * The session that the SOAP header names; undefined before the header was read, for a header that names more than
   * one, and where its end was not seen.
   */
  readonly session: AnswerSession | undefined;
  /**
   * True exactly when the answer was whole and well-formed, and its SOAP body holds a SOAP Fault and nothing else.
   * undefined before `end`.
   */
  readonly faultOnly: boolean | undefined;
}

/** Bytes after which no SOAP header is waited for, of the answer and of its text in UTF-8. */
export const LONGEST_WAIT = 64 * 1024;

/** Depths of the elements: the envelope is 1. */
const ENVELOPE = 1;
const HEADER_OR_BODY = 2;
const CHILD = 3;

/** Thrown to leave the scanner, when nothing more is to be learnt. */
const STOP = new Error('enough was read');

/**
 * Reads an answer that is merely passed through, as far as there is something to be learnt of it: which session its
 * SOAP header names, and whether it is a Fault and nothing else. It keeps nothing of the body, and reads on behind
 * the header only in a Fault.
 *
 * @param answer.contentType the Content-Type as it came
 */
export function watchAnswer(answer: { readonly contentType: string | undefined }): WatchedAnswer {
  let size = 0;
  /** true when the rest cannot tell anything, and is not read */
  let done = false;
  let depth = 0;
  let inHeader = false;
  let bodySeen = false;
  let faults = 0;
  let opened: ReturnType<typeof openSession>;
  let sessions = 0;
  let found: TextSession | undefined;

  function finishHeader(): void {
    if (watched.headerRead) return;
    watched.headerRead = true;
    if (sessions === 1 && found !== undefined && found.element.end <= LONGEST_WAIT)
      watched.session = reader.inBytes(found);
  }

  /** Nothing that was seen so far is believed unless the header was over. */
  function giveUp(): void {
    watched.headerRead = true;
    done = true;
  }

  function stop(): never {
    giveUp();
    throw STOP;
  }

  function open(tag: StartTag): void {
    depth += 1;
    if (depth === ENVELOPE && !(tag.local === 'Envelope' && tag.uri === SOAP)) stop();
    if (depth === HEADER_OR_BODY) openPart(tag);
    if (depth !== CHILD) return;
    if (inHeader) {
      if (!isSession(tag)) return;
      sessions += 1;
      opened = openSession(tag);
    } else {
      faults += 1;
      if (faults > 1 || tag.local !== 'Fault' || tag.uri !== SOAP) stop();
    }
  }

  function openPart(tag: StartTag): void {
    if (tag.uri !== SOAP || bodySeen) stop();
    if (tag.local === 'Body') {
      bodySeen = true;
      finishHeader();
    } else if (tag.local === 'Header' && !watched.headerRead) inHeader = true;
    else stop();
  }

  function close(start: number, end: number): void {
    if (depth === CHILD && opened !== undefined) {
      found = closeSession(opened, start, end);
      opened = undefined;
    } else if (depth === HEADER_OR_BODY && inHeader) {
      inHeader = false;
      finishHeader();
    }
    depth -= 1;
  }

  function text(bytes: Buffer, from: number, to: number): void {
    if (depth < CHILD && !inHeader && !isBlank(bytes, from, to)) stop();
  }

  const reader = answerReader({
    contentType: answer.contentType,
    sink: { open, text, close, doctype: stop },
    failed: giveUp,
    headLimit: LONGEST_WAIT,
  });

  const watched: { -readonly [Field in keyof WatchedAnswer]: WatchedAnswer[Field] } = {
    write(chunk) {
      if (done) return;
      reader.write(chunk);
      size += chunk.length;
      if (!watched.headerRead && size > LONGEST_WAIT) giveUp();
    },
    end() {
      if (watched.faultOnly !== undefined) return;
      if (!done) reader.end();
      watched.faultOnly = !done && faults === 1;
      watched.headerRead = true;
    },
    headerRead: false,
    session: undefined,
    faultOnly: undefined,
  };
  return watched;
}
