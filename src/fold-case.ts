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
