import { inflateRawSync } from 'node:zlib';
import {
  type AnswerText,
  type Cut,
  cutOut,
  keepText,
  ownBytes,
  type StoredAnswer,
} from '../../../../src/cache/stored-answer.ts';
import * as fc from 'fast-check';
import type { TextEncoding } from '../../../../src/xml/text-encoding.ts';
import type { AnswerSession } from '../../../../src/xmla/answer/answer-reader.ts';
import { codePoint } from '../../../support/code-point.ts';

export const ENCODINGS: readonly TextEncoding[] = [
  'utf-8',
  'utf-16le',
  'utf-16be',
  'iso-8859-1',
  'us-ascii',
];

const XMLA = 'urn:schemas-microsoft-com:xml-analysis';

export interface SessionDocument {
  readonly bytes: Buffer;
  readonly session: AnswerSession;
}

/** How an engine may write the element, and what else it says. */
export interface DocumentForm {
  readonly encoding: TextEncoding;
  /** With a byte order mark where UTF-8 needs none. */
  readonly mark?: boolean;
  /** '' for a default namespace. */
  readonly prefix?: string;
  readonly quote?: '"' | "'";
  /** Attributes in front of the id and behind it, with the space that parts them from it. */
  readonly before?: string;
  readonly behind?: string;
  /** Whether it has an end tag of its own. */
  readonly endTag?: boolean;
  /** Text before the element and after it, which the encoding must be able to say. */
  readonly comment?: string;
  readonly caption?: string;
}

/**
 * An answer with a Session in its header.
 * @param written the id as it stands between the quotes
 */
export function documentWith(id: string, written: string, form: DocumentForm): SessionDocument {
  const { encoding, mark = false, prefix = '', quote = '"', before = ' ', behind = '' } = form;
  const { comment = 'x', caption = 'Store 1', endTag = false } = form;
  const colon = prefix === '' ? '' : `${prefix}:`;
  const namespace = prefix === '' ? `xmlns="${XMLA}"` : `xmlns:${prefix}="${XMLA}"`;
  const start = encodedMark(encoding, mark);
  const name = encoding.startsWith('utf-16') ? 'UTF-16' : encoding.toUpperCase();
  const parts = [
    `<?xml version="1.0" encoding="${name}"?>\n<s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/"><s:Header><!--${comment}-->`,
    `<${colon}Session ${namespace}${before}SessionId = ${quote}`,
    written,
    `${quote}${behind}${endTag ? `></${colon}Session >` : '/>'}`,
    `</s:Header><s:Body><Caption>${caption}</Caption></s:Body></s:Envelope>`,
  ].map((text) => encoded(text, encoding));
  const ends = parts.map((_, index) =>
    [start, ...parts.slice(0, index + 1)].reduce((sum, part) => sum + part.length, 0),
  );
  const [declared = 0, opened = 0, valued = 0, closed = 0] = ends;
  return {
    bytes: Buffer.concat([start, ...parts]),
    session: {
      id,
      value: { start: opened, end: valued },
      element: { start: declared, end: closed },
      encoding,
      plain: before.trim() === '' && behind.trim() === '',
    },
  };
}

function encodedMark(encoding: TextEncoding, mark: boolean): Buffer {
  const has = encoding.startsWith('utf-16') || (encoding === 'utf-8' && mark);
  return has ? encoded('\ufeff', encoding) : Buffer.alloc(0);
}

/** Throws for text that the encoding cannot say. */
function encoded(text: string, encoding: TextEncoding): Buffer {
  switch (encoding) {
    case 'utf-8':
      return Buffer.from(text, 'utf8');
    case 'utf-16le':
      return Buffer.from(text, 'utf16le');
    case 'utf-16be':
      return Buffer.from(text, 'utf16le').swap16();
    default: {
      const bytes = Buffer.from(text, 'latin1');
      const sayable = encoding === 'us-ascii' ? bytes.every((byte) => byte < 0x80) : true;
      if (!sayable || bytes.toString('latin1') !== text) throw new Error(`${encoding}: ${text}`);
      return bytes;
    }
  }
}

const XML_TEXT = /^[\t\n\r\u{20}-\u{d7ff}\u{e000}-\u{fffd}\u{10000}-\u{10ffff}]*$/u;

/**
 * Session ids of every kind that XML can hold, the nasty ones often. None begins with U+FEFF: the binding of
 * libxml2 takes that for a byte order mark.
 */
export const sessionIds: fc.Arbitrary<string> = fc
  .array(
    fc.oneof(
      fc.constantFrom('"', "'", '&', '&amp;', '<', '>', ']]>', '<Session', '\t', '\n', '\r', ' '),
      fc.constantFrom('é', '\u0085', '\u00a0', '€', '😀', '\ufeff', '\u2028', '\ufffd', '&#x41;'),
      fc.string({ unit: codePoint, maxLength: 4 }).filter((text) => XML_TEXT.test(text)),
      fc.uuid(),
    ),
    { maxLength: 8 },
  )
  .map((parts) => parts.join('').replace(/^\ufeff+/, ''));

/** As a fill cuts the caller's session out, whose place stays known. */
export const cutSession = (bytes: Buffer, { value, encoding }: AnswerSession) => ({
  body: ownBytes(cutOut([bytes], value)),
  session: { at: value.start, encoding },
});
/** And all of one that the engine began. */
export const cutElement = (bytes: Buffer, { element }: Pick<AnswerSession, 'element'>) =>
  ownBytes(cutOut([bytes], element));

/** A text as the cache keeps it when it comes from the engine. */
export function keptText(bytes: Buffer, cut?: Cut): Promise<AnswerText> {
  const text = keepText(() => {});
  for (let at = 0; at < bytes.length; at += 50_000) text.write(bytes.subarray(at, at + 50_000));
  return text.end(cut);
}

/** The bytes of a text, however it lies there. */
export const bytesIn = (text: AnswerText): Buffer =>
  Buffer.isBuffer(text) ? text : Buffer.concat([text.front, inflateRawSync(text.tail)]);

/** A stored answer; whatever a test does not name says nothing. */
export function answerWith(
  answer: Pick<StoredAnswer, 'session'> & Partial<StoredAnswer> & { readonly body: Buffer },
): StoredAnswer & { readonly body: Buffer } {
  return {
    sessionHeader: false,
    contentType: 'text/xml',
    contentLanguage: undefined,
    requestedAt: 1_700_000_000_000,
    lifetime: 60_000,
    engineMilliseconds: 5,
    ...answer,
  };
}
