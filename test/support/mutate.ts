/** The seed of a run with random damage: FUZZ_SEED repeats one. Print it. */
export function fuzzSeed(): number {
  return Number(process.env['FUZZ_SEED'] ?? Date.now() % 2 ** 32);
}

/** Random numbers below a bound, the same for the same seed on every machine (splitmix32). */
export function randomFrom(seed: number): (below: number) => number {
  let state = seed >>> 0;
  return (below) => {
    state = (state + 0x9e3779b9) >>> 0;
    let mixed = state ^ (state >>> 16);
    mixed = Math.imul(mixed, 0x21f0aaad);
    mixed = Math.imul(mixed ^ (mixed >>> 15), 0x735a2d97);
    return ((mixed ^ (mixed >>> 15)) >>> 0) % below;
  };
}

/** Bytes that mean something to a parser of XML or MDX. */
const PIECES: readonly string[] = [
  ...['<', '>', '</', '/>', '&', ';', '"', "'", '=', ' ', '\t', '\r\n', '\0', '\u0001', '\uFEFF'],
  ...['<a/>', '</a>', '<a:b/>', '<!--', '-->', '<![CDATA[', ']]>', '<?x ?>', '<!DOCTYPE a>'],
  ...[
    '&lt;',
    '&amp;',
    '&#13;',
    '&#0;',
    '&#xD800;',
    '&x;',
    ' a="b"',
    ' xmlns=""',
    ' xmlns:a="urn:a"',
  ],
  ...[
    '--',
    '//',
    '/*',
    '*/',
    '[',
    ']',
    '(',
    ')',
    ',',
    'Now()',
    ' DRILLTHROUGH ',
    '{',
    '}',
    '#NoCache',
  ],
  ...['<Catalog>B</Catalog>', '<Timeout>1</Timeout>', '<Roles>x</Roles>', 'é', '\u2028', '𐀀'],
  // What parsers of XML disagree on.
  '<',
  '>',
  '</',
  '/>',
  '&',
  ';',
  '"',
  "'",
  '=',
  ' ',
  '\t',
  '\r',
  '\n',
  ':',
  '-',
  '--',
  '?',
  '!',
  '[',
  ']',
  ']]>',
  '<![CDATA[',
  '<!--',
  '-->',
  '<?',
  '?>',
  '<?xml version="1.0"?>',
  '<?XML ?>',
  '<?a:b ?>',
  '&#',
  '&#x',
  '&#0;',
  '&#xD800;',
  '&#13;',
  '&lt;',
  '&x;',
  '&#X41;',
  ' a="b"',
  ' a="<"',
  ' xmlns=""',
  ' xmlns:a=""',
  ' xmlns:a="urn:a"',
  ' xmlns:b="urn:a" b:c="" a:c=""',
  ' xmlns:xml="urn:a"',
  ' xmlns:xmlns="urn:a"',
  ' xmlns:1="urn:a"',
  ' xmlns:a="a b"',
  ' xmlns:a="%"',
  ' xml:space="preserve"',
  ' xml:a=""',
  'xmlns',
  'xml',
  '<a/>',
  '<a:b/>',
  '<a:b:c/>',
  '<:a/>',
  '<a:/>',
  '<1/>',
  '<s:1/>',
  '</a>',
  '\0',
  '\u0001',
  '\uFEFF',
  '\uFFFE',
  '\u0085',
  '\u2028',
  '\u00B7',
  '\u0300',
  'é',
  '𐀀',
  '\xED',
  'version',
  'encoding="utf-16"',
  'standalone',
];

/** A copy with one to three small changes: something cut out, repeated, put in, or a byte turned over. */
export function mutate(bytes: Buffer, random: (below: number) => number): Buffer {
  let changed = bytes;
  for (let times = 1 + random(3); times > 0; times -= 1) {
    const at = random(changed.length + 1);
    const cut = random(3) === 0 ? random(20) : 0;
    changed = Buffer.concat([
      changed.subarray(0, at),
      added(changed, random),
      changed.subarray(at + cut),
    ]);
  }
  return changed;
}

function added(bytes: Buffer, random: (below: number) => number): Buffer {
  switch (random(4)) {
    case 0:
      return Buffer.alloc(0);
    case 1:
      return Buffer.of(random(256));
    case 2: {
      const from = random(bytes.length + 1);
      return Buffer.from(bytes.subarray(from, from + random(40)));
    }
    default:
      return Buffer.from(PIECES[random(PIECES.length)] ?? '');
  }
}
