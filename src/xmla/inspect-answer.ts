import type { IncomingHttpHeaders } from 'node:http';
import { SaxesParser } from 'saxes';
import type { SaxesTagNS } from 'saxes';
import type { RefusalReason } from '../reasons.ts';
import { answerDecoder } from './answer-decoder.ts';
import type { AnswerDecoder } from './answer-decoder.ts';
import { findEncoding } from './answer-encoding.ts';
import { answerShape } from './answer-shape.ts';
import { isPlainNamespace } from './namespaces.ts';

export interface AnswerInspector {
  /**
   * Feeds the next bytes of the body, in the order they came, without a content coding. The bytes may be
   * reused afterwards. Takes some milliseconds for each 100 kB, and next to nothing after a refusal.
   */
  write(chunk: Uint8Array): void;
  /** Says whether the whole answer may be stored: undefined when it may. Call once, after the last byte. */
  end(): RefusalReason | undefined;
  /** The refusal known so far, so that the caller may stop keeping bytes early. The first one found stays. */
  readonly refusal: RefusalReason | undefined;
}

/** A character that XML 1.0 allows within a name but not in front (productions 4 and 4a). */
const NO_NAME_START = /^(?:[-.0-9\u{B7}\u{203F}\u{2040}]|[\u{300}-\u{36F}])/u;

/** Thrown by a refusal to leave the parser at once, so that the rest of a hostile chunk costs nothing. */
const STOP = new Error('the answer is refused');

/**
 * Inspects the body of an answer while it passes: one rowset or mddataset, well-formed to its end, without
 * a fault, an error told as data or a session. Status 200 proves none of that, because Mondrian and MDX for
 * Kylin send faults with 200 and SSAS can fail in the middle of an answer and still close its tags.
 * How the bytes are cut into chunks makes no difference. What it keeps does not grow with the body, except
 * that the parser holds one run of text, one tag or one comment at a time.
 *
 * @param answer.contentType the Content-Type as it came; its charset must agree with the bytes
 * @param answer.method the method of the request, which the response element must fit
 */
export function inspectAnswer(answer: {
  readonly contentType: string | undefined;
  readonly method: 'Discover' | 'Execute';
}): AnswerInspector {
  let refusal: RefusalReason | undefined;
  const refuse = (reason: RefusalReason): void => {
    refusal ??= reason;
  };
  const refuseAndStop = (reason: RefusalReason): never => {
    refuse(reason);
    throw STOP;
  };
  const parser = parserOf(answer.method, refuseAndStop);
  let decoder: AnswerDecoder | undefined;
  let first = Buffer.alloc(0);

  function begin(chunk: Buffer, ended: boolean): void {
    first = Buffer.concat([first, chunk]);
    const found = findEncoding(first, ended, answer.contentType);
    if (found.kind === 'more') return;
    if (found.kind === 'unknown') {
      refuse('answer-encoding');
      return;
    }
    decoder = answerDecoder(found.encoding);
    parse(decoder, first);
    first = Buffer.alloc(0);
  }

  function parse(decoder: AnswerDecoder, chunk: Buffer): void {
    const text = decoder.decode(chunk);
    attempt(() => parser.write(text));
    if (decoder.broken) refuse('answer-encoding');
  }

  /**
   * The parser throws at the first thing that is ill-formed, a refusal throws `STOP`. Whatever else may be
   * thrown, nothing is proved.
   */
  function attempt(step: () => void): void {
    try {
      step();
    } catch {
      refuse('not-well-formed');
    }
  }

  return {
    write(chunk) {
      if (refusal !== undefined || chunk.length === 0) return;
      const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
      if (decoder === undefined) begin(bytes, false);
      else parse(decoder, bytes);
    },
    end() {
      if (decoder === undefined && refusal === undefined) begin(Buffer.alloc(0), true);
      if (refusal !== undefined) return refusal;
      if (decoder?.pending === true) refuse('not-well-formed');
      attempt(() => parser.close());
      return refusal;
    },
    get refusal() {
      return refusal;
    },
  };
}

function parserOf(
  method: 'Discover' | 'Execute',
  refuse: (reason: RefusalReason) => never,
): SaxesParser<{ xmlns: true }> {
  const parser = new SaxesParser({
    xmlns: true,
    position: false,
    defaultXMLVersion: '1.0',
    forceXMLVersion: true,
  });
  const shape = answerShape(method, refuse);
  let declarationChecked = false;
  // Six handlers and no more. The parser keeps them in properties of its own, and from the seventh on V8
  // turns the parser into a hash table, which makes it five times slower. So errors are thrown, which is
  // the default, and the declaration is read at the first tag.
  parser.on('opentag', (tag) => {
    if (!declarationChecked) {
      declarationChecked = true;
      const { version } = parser.xmlDecl;
      // XML 1.1 counts other characters as line ends: a client might read another text than was inspected.
      if (version !== undefined && version !== '1.0') refuse('not-well-formed');
    }
    if (hasIllFormedName(tag)) refuse('not-well-formed');
    shape.open(tag);
  });
  parser.on('text', shape.text);
  parser.on('cdata', shape.text);
  parser.on('closetag', shape.close);
  parser.on('processinginstruction', ({ body }) => {
    // The parser takes `<?a?b?>` for `<?a ?b?>`, and only the second is XML.
    if (body.startsWith('?')) refuse('not-well-formed');
  });
  // SOAP 1.1 section 3 forbids it.
  parser.on('doctype', () => refuse('answer-shape'));
  return parser;
}

/**
 * The parser checks how a whole name starts, but not the part behind the colon, and takes any text for the name
 * of a namespace.
 */
function hasIllFormedName(tag: SaxesTagNS): boolean {
  if (tag.prefix !== '' && NO_NAME_START.test(tag.local)) return true;
  for (const name in tag.attributes) {
    const attribute = tag.attributes[name];
    if (attribute === undefined) continue;
    const declares = attribute.prefix === 'xmlns' || name === 'xmlns';
    if (declares && !isPlainNamespace(attribute.value)) return true;
    if (attribute.prefix === '') continue;
    if (NO_NAME_START.test(attribute.local)) return true;
  }
  return false;
}

const MEDIA_TYPES: ReadonlySet<string> = new Set(['text/xml', 'application/xml']);

/**
 * What the head of an answer alone forbids to store. Headers in lower case, as node gives them. A caller that
 * has removed a content coding leaves the header Content-Encoding out.
 */
export function refuseByHead(head: {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
}): RefusalReason | undefined {
  const { status, headers } = head;
  if (status !== 200) return 'engine-status';
  const mediaType = (headers['content-type'] ?? '').split(';', 1)[0] ?? '';
  if (!MEDIA_TYPES.has(mediaType.trim().toLowerCase())) return 'media-type';
  const coding = headers['content-encoding'] ?? 'identity';
  if (coding.trim().toLowerCase() !== 'identity') return 'content-coding';
  // MDX for Kylin tells by this header that a query failed which it answers with an ordinary dataset.
  const { success } = headers;
  if (success !== undefined && String(success).trim().toLowerCase() !== 'true') return 'error-cell';
  return undefined;
}
