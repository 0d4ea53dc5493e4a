/**
 * One spelling, without regard to case and to how accents are composed (NFC). Upper case comes in
 * between for `ß` and the two small sigmas, lower case before it for `ẞ`; what `Σ` becomes depends
 * on its neighbours.
 */
export function foldCase(text: string): string {
  // Most names are ASCII, of which only this is left.
  if (isAscii(text)) return text.toLowerCase();
  const folded = text.normalize('NFC').toLowerCase().toUpperCase().toLowerCase();
  return folded.replaceAll('ς', 'σ').normalize('NFC');
}

/**
 * A letter beyond ASCII takes more bytes than UTF-16 units. Of a long text several times as quick
 * as a pattern.
 */
export const isAscii = (text: string): boolean => Buffer.byteLength(text) === text.length;
/**
 * The most bytes of UTF-8 that the name of a project, a catalog or a cube may have, as it is and
 * folded.
 */
export const LONGEST_NAME = 255;

/**
 * Whether nothing may be kept under it: what is kept by name is bounded by its count, and so in
 * bytes.
 */
export function isLongName(name: string): boolean {
  if (name.length > LONGEST_NAME || isAscii(name)) return name.length > LONGEST_NAME;
  return [name, foldObjectName(name)].some((text) => Buffer.byteLength(text) > LONGEST_NAME);
}

/**
 * One spelling for all that some engine might take for the same of its objects; too much is safe.
 * Beside {@link foldCase}: other widths and styles (NFKC), scripts of kana (SSAS ignores both),
 * what cannot be seen, outer white space; twice, since each step may make something for the others.
 */
export function foldObjectName(name: string): string {
  if (isAscii(name)) return name.trim().toLowerCase();
  return foldObjectOnce(foldObjectOnce(name));
}

function foldObjectOnce(name: string): string {
  const visible = name.normalize('NFKC').replaceAll(INVISIBLE, '');
  return foldCase(visible.replaceAll(HIRAGANA, toKatakana)).normalize('NFKC').trim();
}

const INVISIBLE = /\p{Default_Ignorable_Code_Point}/gu;
const toKatakana = (kana: string) => String.fromCharCode(kana.charCodeAt(0) + 0x60);
const HIRAGANA = /[\u3041-\u3096\u309d\u309e]/g;
