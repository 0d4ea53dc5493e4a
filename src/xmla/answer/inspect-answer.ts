import type { IncomingHttpHeaders } from 'node:http';
import type { ErrorAsData } from '../../common/engine-kinds.ts';
import type { RefusalReason } from '../../common/reasons.ts';
import { answerReader } from './answer-reader.ts';
import type { AnswerSession } from './answer-session.ts';
import { HEAD_LIMIT, answerShape } from './answer-shape.ts';

/**
 * The most bytes that should be inspected in one turn of the event loop: a larger chunk is cut into slices, with a
 * turn for others between them.
 */
export const INSPECTION_SLICE = 64 * 1024;

/** What an inspection says of a whole answer. */
export type Inspection =
  /** It may be stored; `session` is the element that it names a session with. */
  | { readonly ok: true; readonly session: AnswerSession | undefined }
  | { readonly ok: false; readonly reason: RefusalReason };

export interface AnswerInspector {
  /**
   * Feeds the next bytes of the body, in the order they came, without a content coding. The bytes may be
   * reused afterwards. Takes next to nothing after a refusal.
   */
  write(chunk: Uint8Array): void;
  /** Says whether the whole answer may be stored. Call once, after the last byte. */
  end(): Inspection;
  /** The refusal known so far, so that the caller may stop keeping bytes early. The first one found stays. */
  readonly refusal: RefusalReason | undefined;
}

/** Thrown by a refusal to leave the scanner at once, so that the rest of a hostile chunk costs nothing. */
const STOP = new Error('the answer is refused');

/**
 * Inspects the body of an answer while it passes: one rowset or mddataset, well-formed to its end, without
 * a fault or an error told as data. Status 200 proves none of that, because Mondrian and MDX for
 * Kylin send faults with 200 and SSAS can fail in the middle of an answer and still close its tags.
 * How the bytes are cut into chunks makes no difference. What it keeps does not grow with the body, but with the
 * number of different names in it, and that is bounded.
 * A session in the SOAP header is told, and where it stands: the answer is stored without its id.
 *
 * @param answer.contentType the Content-Type as it came; its charset must agree with the bytes
 * @param answer.method the method of the request, which the response element must fit
 * @param answer.errorsAsData in which ways of its own the engine tells errors as data
 */
export function inspectAnswer(answer: {
  readonly contentType: string | undefined;
  readonly method: 'Discover' | 'Execute';
  readonly errorsAsData: readonly ErrorAsData[];
}): AnswerInspector {
  const refuse = (reason: RefusalReason): void => {
    inspector.refusal ??= reason;
  };
  const refuseAndStop = (reason: RefusalReason): never => {
    refuse(reason);
    throw STOP;
  };
  const shape = answerShape(answer.method, answer.errorsAsData, refuseAndStop);
  const reader = answerReader({
    contentType: answer.contentType,
    sink: shape,
    failed: refuse,
    headLimit: HEAD_LIMIT,
  });

  // No getter: see `textDecoder`.
  const inspector: { -readonly [Field in keyof AnswerInspector]: AnswerInspector[Field] } = {
    write(chunk) {
      if (inspector.refusal === undefined) reader.write(chunk);
    },
    end() {
      if (inspector.refusal === undefined) reader.end();
      const { refusal } = inspector;
      if (refusal !== undefined) return { ok: false, reason: refusal };
      const session = shape.session();
      return { ok: true, session: session === undefined ? undefined : reader.inBytes(session) };
    },
    refusal: undefined,
  };
  return inspector;
}

const MEDIA_TYPES: ReadonlySet<string> = new Set(['text/xml', 'application/xml']);

/**
 * What the head of an answer alone forbids to store. Headers in lower case, as node gives them. A caller that
 * has removed a content coding leaves the header Content-Encoding out.
 *
 * @param successHeader the header by which the engine says whether a query went well that it answers with an
 *   ordinary dataset; undefined when it has none
 */
export function refuseByHead(
  head: { readonly status: number; readonly headers: IncomingHttpHeaders },
  successHeader: string | undefined,
): RefusalReason | undefined {
  const { status, headers } = head;
  if (status !== 200) return 'engine-status';
  const mediaType = (headers['content-type'] ?? '').split(';', 1)[0] ?? '';
  if (!MEDIA_TYPES.has(mediaType.trim().toLowerCase())) return 'media-type';
  const coding = headers['content-encoding'] ?? 'identity';
  if (coding.trim().toLowerCase() !== 'identity') return 'content-coding';
  const success = successHeader === undefined ? undefined : headers[successHeader];
  if (success !== undefined && String(success).trim().toLowerCase() !== 'true') return 'error-cell';
  return undefined;
}
