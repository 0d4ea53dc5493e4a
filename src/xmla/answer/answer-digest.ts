import { createHash } from 'node:crypto';
import { SOAP } from '../names.ts';
import { answerReader, HEADER_OR_BODY } from './answer-reader.ts';

/** Times of loads and changes; some engines give the time of the answer instead. */
const MOMENTS: ReadonlySet<string> = new Set([
  'LastDataUpdate',
  'LastSchemaUpdate',
  'LAST_DATA_UPDATE',
  'LAST_SCHEMA_UPDATE',
]);
/** Separators that XML cannot hold. */
const [OPEN, NAME, CLOSE] = ['\x01', '\x02', '\x03'];
/** Characters digested in one call: a call for each element would take longer than all else. */
const DIGEST_BATCH = 16 * 1024;

/**
 * Digests what an answer says, to compare answers of different times. Left out are the SOAP header,
 * which can hold only a session, the content of {@link MOMENTS}, and the spelling in XML (prefixes,
 * quotes, comments).
 */
export function answerDigest(contentType: string | undefined) {
  const hash = createHash('sha256');
  let pending = '';
  let depth = 0;
  let bodySeen = false;
  let momentDepth = Infinity;

  function add(text: string): void {
    pending += text;
    if (pending.length < DIGEST_BATCH) return;
    hash.update(pending);
    pending = '';
  }

  const reader = answerReader(contentType, {
    open(tag) {
      depth += 1;
      bodySeen ||= depth === HEADER_OR_BODY && tag.local === 'Body' && tag.uri === SOAP;
      if (!bodySeen || depth > momentDepth) return;
      let text = OPEN + tag.local + NAME + tag.uri;
      for (const one of tag.attributes()) {
        text += NAME + one.local + NAME + one.uri + NAME + one.value;
      }
      add(text + CLOSE);
      if (MOMENTS.has(tag.local)) momentDepth = depth;
    },
    text(bytes, from, to) {
      // Latin-1 tells texts apart as well, and faster.
      if (bodySeen && depth < momentDepth) add(bytes.toString('latin1', from, to));
    },
    close() {
      if (depth === momentDepth) momentDepth = Infinity;
      if (bodySeen && depth <= momentDepth) add(CLOSE);
      depth -= 1;
    },
    doctype() {
      throw new Error('a document type declaration');
    },
  });
  let isReadable = true;

  return {
    /** Takes bytes without content coding; they may be reused afterwards. */
    write(chunk: Uint8Array): void {
      isReadable &&= reader.write(chunk) === undefined;
    },
    end(): string | undefined {
      isReadable &&= reader.end() === undefined;
      return isReadable ? hash.update(pending).digest('base64url') : undefined;
    },
  };
}
