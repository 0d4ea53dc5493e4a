import { isPlainName } from './xml-names.ts';
import { ILL_FORMED, UNFINISHED } from './xml-references.ts';

const DECLARATION =
  /^<\?xml[ \t\r\n]+version[ \t\r\n]*=[ \t\r\n]*(["'])1\.0\1(?:[ \t\r\n]+encoding[ \t\r\n]*=[ \t\r\n]*(["'])[A-Za-z][\w.-]*\2)?(?:[ \t\r\n]+standalone[ \t\r\n]*=[ \t\r\n]*(["'])(?:yes|no)\3)?[ \t\r\n]*\?>$/;
const TARGET = /^<\?([^ \t\r\n?]+)(?:[ \t\r\n][^]*)?\?>$/;
const FORBIDDEN = /[^\t\n\r\u{20}-\u{D7FF}\u{E000}-\u{FFFD}\u{10000}-\u{10FFFF}]/u;

/**
 * Reads the processing instruction at `at`, or the XML declaration where it stands first.
 * @param largest bytes that it may have
 * @returns the index behind it, `UNFINISHED` or `ILL_FORMED`
 */
export function instructionEnd(bytes: Buffer, at: number, first: boolean, largest: number): number {
  const end = bytes.indexOf('?>', at + 2);
  if (end < 0) return UNFINISHED;
  const isWell =
    end + 2 - at <= largest && isInstruction(bytes.toString('utf8', at, end + 2), first);
  return isWell ? end + 2 : ILL_FORMED;
}

/**
 * Whether a text from `<?` to `?>` is the XML declaration, at the start of a document, or a processing instruction
 * (XML 1.0 sections 2.6 and 2.8). XML 1.1 is refused: it counts other characters as line ends, so that a client
 * might read another text than was inspected.
 */
function isInstruction(text: string, first: boolean): boolean {
  if (first && DECLARATION.test(text)) return true;
  const target = TARGET.exec(text)?.[1];
  if (target === undefined || target.toLowerCase() === 'xml') return false;
  return isPlainName(target) && !FORBIDDEN.test(text);
}
