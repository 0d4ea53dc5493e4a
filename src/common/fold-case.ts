/**
 * One spelling for all spellings of a name that count as the same: without regard to case, and to how accents are
 * composed (NFC). Upper case comes in between, since `ß` and `ss` and the two small sigmas only meet there; lower case
 * before it, since `ẞ` has no other upper case. What `Σ` becomes in lower case depends on its neighbours.
 */
export function foldCase(text: string): string {
  // Most names are ASCII, of which only this is left.
  if (ASCII.test(text)) return text.toLowerCase();
  const folded = text.normalize('NFC').toLowerCase().toUpperCase().toLowerCase();
  return folded.replaceAll('ς', 'σ').normalize('NFC');
}

const ASCII = /^[\0-\x7f]*$/;
/** The most bytes of UTF-8 that the name of a project, a catalog or a cube may have, as it is and folded. */
export const LONGEST_NAME = 255;

/**
 * Whether nothing may be kept under a name, because it is too long: what is kept by name is bounded by its count, and so
 * in bytes. Folding may make a name eleven times as long.
 */
export function isLongName(name: string): boolean {
  if (name.length > LONGEST_NAME || ASCII.test(name)) return name.length > LONGEST_NAME;
  return [name, foldObjectName(name)].some((text) => Buffer.byteLength(text) > LONGEST_NAME);
}

/**
 * One spelling for all spellings of a name that some engine might take for the same of its objects: projects, catalogs,
 * cubes, sessions. Beside what {@link foldCase} takes for the same, letters of other widths and styles (NFKC), the two
 * scripts of kana (the collations of SSAS ignore both), what cannot be seen, and outer white space. Too much is safe.
 */
export function foldObjectName(name: string): string {
  if (ASCII.test(name)) return name.trim().toLowerCase();
  // Each step may make something for the others.
  return foldObjectOnce(foldObjectOnce(name));
}

function foldObjectOnce(name: string): string {
  const visible = name.normalize('NFKC').replaceAll(INVISIBLE, '');
  return foldCase(visible.replaceAll(HIRAGANA, toKatakana)).normalize('NFKC').trim();
}

const INVISIBLE = /\p{Default_Ignorable_Code_Point}/gu;
const toKatakana = (kana: string) => String.fromCharCode(kana.charCodeAt(0) + 0x60);
const HIRAGANA = /[\u3041-\u3096\u309d\u309e]/g;
