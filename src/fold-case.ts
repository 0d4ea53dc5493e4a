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

/**
 * One spelling for all spellings of a name that some engine might take for the same of its objects: projects,
 * catalogs, cubes, sessions. Beside what {@link foldCase} takes for the same, letters of other widths and styles
 * (NFKC), the two scripts of kana (the collations of SSAS ignore both), what cannot be seen, and outer white space.
 * Too much is safe wherever it is used: one entry purged, or one cube asked of the engine, too many.
 */
export function foldObjectName(name: string): string {
  if (ASCII.test(name)) return name.trim().toLowerCase();
  // Each step may make something for the others.
  return foldObjectOnce(foldObjectOnce(name));
}

function foldObjectOnce(name: string): string {
  const visible = name.normalize('NFKC').replaceAll(INVISIBLE, '');
  const ofOneScript = visible.replaceAll(HIRAGANA, (kana) =>
    String.fromCharCode(kana.charCodeAt(0) + TO_KATAKANA),
  );
  return foldCase(ofOneScript).normalize('NFKC').trim();
}

const INVISIBLE = /\p{Default_Ignorable_Code_Point}/gu;
const HIRAGANA = /[\u3041-\u3096\u309d\u309e]/g;
const TO_KATAKANA = 0x60;
