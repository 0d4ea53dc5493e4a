/**
 * One spelling for all spellings of a name that some engine might take for the same one. Upper case first,
 * because letters such as dotless i and long s meet their ASCII partners only there.
 */
export function foldName(name: string): string {
  return name.toUpperCase().toLowerCase();
}
