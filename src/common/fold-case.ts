/**
 * One spelling without case and composition of accents (NFC). Upper case between is for `ß` and the
 * two small sigmas, lower case before it for `ẞ`; what `Σ` becomes depends on its neighbours.
 */
export function foldCase(text: string): string {
  if (isAscii(text)) return text.toLowerCase();
  const folded = text.normalize('NFC').toLowerCase().toUpperCase().toLowerCase();
  return folded.replaceAll('ς', 'σ').normalize('NFC');
}

/** Several times as quick as a pattern on long texts. */
export const isAscii = (text: string): boolean => Buffer.byteLength(text) === text.length;
/** Bytes of UTF-8 of a project, catalog or cube, as it is and folded. */
export const LONGEST_NAME = 255;

/** Nothing is kept under longer names: memory by name is bounded by count. */
export function isLongName(name: string): boolean {
  if (name.length > LONGEST_NAME || isAscii(name)) return name.length > LONGEST_NAME;
  return [name, foldObjectName(name)].some((text) => Buffer.byteLength(text) > LONGEST_NAME);
}

/**
 * One spelling for all that some engine might take for one object; too much is safe. Beside {@link
 * foldCase}: other widths and styles (NFKC), scripts of kana (SSAS ignores both), what is
 * invisible, outer white space. Twice, since a step may make work for the others.
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
