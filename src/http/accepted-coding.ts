/** A coding with its weight: `gzip`, `gzip;q=0.5`. Nothing else may stand beside it (RFC 9110 §12.4.2). */
const MEMBER =
  /^[ \t]*([!#$%&'*+\-.^_`|~0-9a-z]+)(?:[ \t]*;[ \t]*q=(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?))?[ \t]*$/i;
/** To be overlooked (RFC 9110 §5.6.1.2). */
const EMPTY_MEMBER = /^[ \t]*$/;

/**
 * Whether the client takes gzip, and would not rather have the answer as it is (RFC 9110 §12.5.3). `x-gzip` is
 * gzip (§8.4.1.3), `*` is what is not named.
 *
 * @param header the request header Accept-Encoding. Without one, or with one that breaks the rules, the answer is
 *   no: who does not ask for gzip in so many words may not understand it
 */
export function acceptsGzip(header: string | undefined): boolean {
  if (header === undefined) return false;
  const weights = new Map<string, number>();
  for (const part of header.split(',')) {
    if (EMPTY_MEMBER.test(part)) continue;
    const [, name, weight = '1'] = MEMBER.exec(part) ?? [];
    if (name === undefined) return false;
    const coding = name.toLowerCase() === 'x-gzip' ? 'gzip' : name.toLowerCase();
    // Named twice, the smaller weight counts.
    weights.set(coding, Math.min(Number(weight), weights.get(coding) ?? 1));
  }
  const others = weights.get('*') ?? 0;
  const gzip = weights.get('gzip') ?? others;
  return gzip > 0 && gzip >= (weights.get('identity') ?? others);
}
