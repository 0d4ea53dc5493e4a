/** What can be said of bytes whose text encoding is unknown or contradictory. */

/**
 * Encodings in which the letters of ASCII stand as themselves, at most with zero bytes beside them, and in which no
 * other bytes mean them. UTF-7 and EBCDIC are none, nor those that switch their meaning midway (ISO-2022, HZ).
 */
const TRANSPARENT =
  /^(?:utf-?8|utf-?16(?:le|be)?|us-ascii|ascii|iso[-_]?8859[-_]\d{1,2}|latin-?1|windows-125\d|cp125\d|koi8-[ru]|gbk|gb2312|gb18030|big5|euc-(?:jp|kr|cn)|shift[-_]jis|windows-31j)$/i;

/** The XML declaration stands within this many characters. */
const DECLARATION = 1024;

/** The bytes as letters of ASCII, as far as they are some: without the zero bytes of UTF-16 and UTF-32. */
export function lettersOf(body: Uint8Array): string {
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  if (!bytes.includes(0)) return bytes.toString('latin1');
  // Not as a text, of which each zero would be cut out by itself.
  const letters = Buffer.allocUnsafe(bytes.length);
  let count = 0;
  for (let i = 0; i < bytes.length; i += 1) {
    const byte = bytes[i] ?? 0;
    letters[count] = byte;
    if (byte !== 0) count += 1;
  }
  return letters.toString('latin1', 0, count);
}

/**
 * Whether a body could say something in letters that {@link lettersOf} does not show: because it does not begin like
 * XML, behind its byte order mark, or because its encoding is named and not for certain one that keeps them.
 */
export function hidesLetters(body: Uint8Array, contentType: string | undefined): boolean {
  const letters = lettersOf(body);
  const start = /^(?:\u00EF\u00BB\u00BF|\u00FE\u00FF|\u00FF\u00FE)?[ \t\r\n]*</.exec(letters);
  if (start === null) return true;
  const named = [...charsetsOf(contentType), ...declaredEncodings(letters)];
  return named.some((label) => !TRANSPARENT.test(label));
}

/** Every mention of a charset; one that is spelt in another way than usual is '', which no encoding is called. */
function charsetsOf(contentType = ''): string[] {
  const mentions = contentType.split(/charset/i).slice(1);
  return mentions.map((rest) => /^="?([\w.:-]+)"?[ \t]*(?:;|$)/.exec(rest)?.[1] ?? '');
}

function declaredEncodings(letters: string): string[] {
  const end = letters.indexOf('?>');
  const declaration = letters.slice(0, end === -1 ? DECLARATION : Math.min(end, DECLARATION));
  const mentions = declaration.split(/encoding/i).slice(1);
  return mentions.map((rest) => /^[ \t\r\n]*=[ \t\r\n]*["']([\w.:-]+)["']/.exec(rest)?.[1] ?? '');
}
