/**
 * One spelling for all spellings of a name that count as the same: without regard to case, and to how accents
 * are composed (NFC). Upper case comes in between, since `ß` and `ss` and the two small sigmas only meet there;
 * lower case before it, since `ẞ` has no other upper case than itself. What `Σ` becomes in lower case depends on
 * its neighbours, so that a part of a name would not be found in it.
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
 * Whether nothing may be kept under a name, because it is too long: all that is kept by name is bounded by its count,
 * so that the length of names bounds it in bytes. Folding may make a name eleven times as long.
 */
export function isLongName(name: string): boolean {
  if (name.length > LONGEST_NAME || ASCII.test(name)) return name.length > LONGEST_NAME;
  return (
    Buffer.byteLength(name) > LONGEST_NAME ||
    Buffer.byteLength(foldCase(name.normalize('NFKC'))) > LONGEST_NAME
  );
}
