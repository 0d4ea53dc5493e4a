import { createHash } from 'node:crypto';
import { SOAP } from '../names.ts';
import { answerReader, HEADER_OR_BODY } from './answer-reader.ts';

/** When the engine last loaded or changed something: some tell the time of the answer. Of mddatasets, and columns of rowsets. */
const MOMENTS: ReadonlySet<string> = new Set([
  'LastDataUpdate',
  'LastSchemaUpdate',
  'LAST_DATA_UPDATE',
  'LAST_SCHEMA_UPDATE',
]);
/** What stands between the parts is nothing that XML can hold. */
const [OPEN, NAME, CLOSE] = ['\x01', '\x02', '\x03'];
/** So many characters are digested together: to call for each element takes longer than all else. */
const TOGETHER = 16 * 1024;

/**
 * The digest of what an answer says, by which two that came at different times are compared. Left out are the SOAP header,
 * which can hold nothing but a session, the content of {@link MOMENTS}, and how things are spelt in XML (prefixes, quotes, comments).
 * @param contentType the Content-Type as it came
 */
export function answerDigest(contentType: string | undefined) {
  const hash = createHash('sha256');
  let pending = '';
  let depth = 0;
  let bodySeen = false;
  /** The depth of a moment, while it is open. */
  let left = Infinity;

  function add(text: string): void {
    pending += text;
    if (pending.length < TOGETHER) return;
    hash.update(pending);
    pending = '';
  }

  const reader = answerReader(contentType, {
    open(tag) {
      depth += 1;
      bodySeen ||= depth === HEADER_OR_BODY && tag.local === 'Body' && tag.uri === SOAP;
      if (!bodySeen || depth > left) return;
      let text = OPEN + tag.local + NAME + tag.uri;
      for (const one of tag.attributes()) {
        text += NAME + one.local + NAME + one.uri + NAME + one.value;
      }
      add(text + CLOSE);
      if (MOMENTS.has(tag.local)) left = depth;
    },
    text(bytes, from, to) {
      // Two texts are as different in this reading of their bytes, which is quicker.
      if (bodySeen && depth < left) add(bytes.toString('latin1', from, to));
    },
    close() {
      if (depth === left) left = Infinity;
      if (bodySeen && depth <= left) add(CLOSE);
      depth -= 1;
    },
    doctype() {
      throw new Error('a document type declaration');
    },
  });
  let isReadable = true;

  return {
    /** Takes the next bytes of the body, without a content coding. They may be reused afterwards. */
    write(chunk: Uint8Array): void {
      isReadable &&= reader.write(chunk) === undefined;
    },
    /** Behind the last byte. Undefined for what is no XML. */
    end(): string | undefined {
      isReadable &&= reader.end() === undefined;
      return isReadable ? hash.update(pending).digest('base64url') : undefined;
    },
  };
}
