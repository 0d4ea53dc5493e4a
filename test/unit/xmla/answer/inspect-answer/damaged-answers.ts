import * as fc from 'fast-check';
import type { Sample } from './answer-samples.ts';

/** A change of the bytes; `at` and `to` are fractions of the length, so that shrinking keeps their meaning. */
const fraction = fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true });
const INSERTS = [
  '\0',
  '<',
  '>',
  '&',
  ';',
  '"',
  "'",
  '=',
  '/',
  ':',
  '-',
  ']]>',
  '--',
  '?>',
  '<?',
  '<!',
  '<![CDATA[',
  '<!-- x -->',
  '<?xml version="1.0"?>',
  '<!DOCTYPE a>',
  '&#0;',
  '&#xD800;',
  '&#x110000;',
  '&amp',
  '&x;',
  ' xmlns:q=""',
  ' xmlns="urn:q"',
  ' q:q="1"',
  ' a="1" a="2"',
  ' xml:lang="1"',
  '<q:q/>',
  '<a:/>',
  '<xsd:1/>',
  ' xsi:-a="1"',
  '<xmlns:a/>',
  '</',
  '/>',
  '\ufeff',
  '\ufffe',
  '\uffff',
  '\ud800',
  '\x0b',
  '\x7f',
  '\x85',
  '\r',
  'é',
  '😀',
];
const ATTRIBUTES = [
  ...[
    ' a="1"',
    " a='>'",
    ' a="<"',
    ' a = "&#65;"',
    ' a="&#0;"',
    ' a="1"b="2"',
    ' a',
    ' a=1',
    ' a=""',
  ],
  ...[
    ' xmlns="urn:q"',
    ' xmlns=""',
    ' xmlns:q="urn:q"',
    ' xmlns:q=""',
    ' xmlns:xml="urn:q"',
    ' xmlns:xmlns="urn:q"',
  ],
  ...[
    ' xmlns:q="urn:q" xmlns:r="urn:q" q:a="" r:a=""',
    ' q:a=""',
    ' xmlns:q="urn:q" q:a="" q:a=""',
    ' xmlns="urn: q"',
  ],
  ...[
    ' xml:lang="de"',
    ' xml:id="1"',
    ' xml:space="no"',
    ' xsi:type="string"',
    ' SessionId="x"',
    ' é="1"',
    ' a:b:c="1"',
  ],
  ...[
    ' xmlns:q="http://www.w3.org/XML/1998/namespace"',
    ' xmlns="http://www.w3.org/2000/xmlns/"',
    ' a="\uFFFE"',
    ' a="]]>"',
  ],
];
const NAMES = [
  'a',
  'q:a',
  'xsd:a',
  'xmlns:a',
  'xml:a',
  'xmlns',
  'é',
  '1',
  '-a',
  ':a',
  'a:',
  'a:b:c',
  'Session',
  'Error',
  '\u0300a',
  'a\u00B7',
  '\u037E',
];
const edit = fc.oneof(
  fc.record({ kind: fc.constant('flip' as const), at: fraction, bit: fc.nat({ max: 7 }) }),
  fc.record({ kind: fc.constant('byte' as const), at: fraction, byte: fc.nat({ max: 255 }) }),
  fc.record({ kind: fc.constant('cut' as const), at: fraction }),
  fc.record({
    kind: fc.constant('copy' as const),
    at: fraction,
    from: fraction,
    length: fc.nat({ max: 60 }),
  }),
  fc.record({ kind: fc.constant('drop' as const), at: fraction, length: fc.nat({ max: 60 }) }),
  fc.record({
    kind: fc.constant('insert' as const),
    at: fraction,
    text: fc.constantFrom(...INSERTS),
  }),
  fc.record({
    kind: fc.constant('label' as const),
    name: fc.constantFrom('UTF-8', 'utf-16', 'ISO-8859-1', 'US-ASCII', 'windows-1252', 'x'),
  }),
  fc.record({
    kind: fc.constant('recode' as const),
    coding: fc.constantFrom('utf8', 'latin1', 'utf16le'),
  }),
  fc.record({
    kind: fc.constant('token' as const),
    at: fraction,
    how: fc.constantFrom('drop', 'double', 'swap', 'end', 'empty', 'comment', 'cdata', 'element'),
  }),
  fc.record({
    kind: fc.constant('again' as const),
    at: fraction,
    how: fc.constantFrom('same', 'value', 'space', 'prefix', 'default', 'attribute', 'end'),
    text: fc.constantFrom(...ATTRIBUTES),
  }),
  fc.record({ kind: fc.constant('undeclare' as const), at: fraction }),
  fc.record({
    kind: fc.constant('attribute' as const),
    at: fraction,
    text: fc.constantFrom(...ATTRIBUTES),
  }),
  fc.record({
    kind: fc.constant('name' as const),
    at: fraction,
    text: fc.constantFrom(...NAMES),
    both: fc.boolean(),
  }),
);
type Edit = typeof edit extends fc.Arbitrary<infer T> ? T : never;

const binary = (text: string): string => Buffer.from(text).toString('latin1');

/** Changes a tag, or the text between two, together with what follows it. */
function onToken(
  bytes: Buffer,
  at: number,
  change: (token: string, next: string) => string,
): Buffer {
  const tokens = bytes.toString('latin1').match(/<[^>]*>|[^<]+/g) ?? [];
  const index = Math.floor(at * tokens.length);
  const changed = change(tokens[index] ?? '', tokens[index + 1] ?? '');
  return Buffer.from(
    [...tokens.slice(0, index), changed, ...tokens.slice(index + 2)].join(''),
    'latin1',
  );
}

function reshape(token: string, next: string, how: string): string {
  switch (how) {
    case 'drop':
      return next;
    case 'double':
      return token + token + next;
    case 'swap':
      return next + token;
    case 'end':
      return token.replace(/^<\/?/, (start) => (start === '<' ? '</' : '<')) + next;
    case 'empty':
      return token.replace(/>$/, '/>') + next;
    case 'comment':
      return `<!--${token}-->${next}`;
    case 'cdata':
      return `<![CDATA[${token}]]>${next}`;
    default:
      return `<q>${token}</q>${next}`;
  }
}

/** Repeats an element without children, so that its tags are known, with a small change in what came again. */
function again(bytes: Buffer, at: number, how: string, attribute: string): Buffer {
  const text = bytes.toString('latin1');
  const leaves = Array.from(text.matchAll(/<([^\s/>!?]+)([^<>]*[^<>/])?>[^<]*<\/\1\s*>/g));
  const leaf = leaves[Math.floor(at * leaves.length)];
  if (leaf === undefined) return bytes;
  const [whole] = leaf;
  const around = (declaration: string): string => `<q ${declaration}>${whole}${whole}</q>`;
  const changed = {
    same: whole,
    value: whole.replace(/(="[^"]*)"/, '$1x"'),
    space: whole.replace('>', ' >'),
    prefix: around('xmlns:xsi="urn:q"'),
    default: around('xmlns="urn:q"'),
    attribute: whole.replace('>', `${binary(attribute)}>`),
    end: whole.replace(/<\/[^>]*/, '$&x'),
  }[how];
  const put = whole.repeat(3) + (changed ?? '') + whole;
  const end = leaf.index + whole.length;
  return Buffer.from(text.slice(0, leaf.index) + put + text.slice(end), 'latin1');
}

/** Takes the declaration of a namespace away from around names that use it. */
function undeclare(bytes: Buffer, at: number): Buffer {
  const text = bytes.toString('latin1');
  const all = Array.from(text.matchAll(/ xmlns(?::\w+)?="[^"]*"/g));
  const one = all[Math.floor(at * all.length)];
  if (one === undefined) return bytes;
  const [whole] = one;
  return Buffer.from(text.slice(0, one.index) + text.slice(one.index + whole.length), 'latin1');
}

function apply(bytes: Buffer, change: Edit): Buffer {
  const at = 'at' in change ? Math.floor(change.at * bytes.length) : 0;
  const put = (from: number, text: Buffer, to: number): Buffer =>
    Buffer.concat([bytes.subarray(0, from), text, bytes.subarray(to)]);
  switch (change.kind) {
    case 'flip':
      return put(at, Buffer.from([(bytes[at] ?? 0) ^ (1 << change.bit)]), at + 1);
    case 'byte':
      return put(at, Buffer.from([change.byte]), at + 1);
    case 'cut':
      return bytes.subarray(0, at);
    case 'copy': {
      const from = Math.floor(change.from * bytes.length);
      return put(at, bytes.subarray(from, from + change.length), at);
    }
    case 'drop':
      return put(at, Buffer.alloc(0), at + change.length);
    case 'insert':
      return put(at, Buffer.from(change.text), at);
    case 'label':
      return Buffer.from(
        bytes.toString('latin1').replace(/encoding="[^"]*"/, `encoding="${change.name}"`),
        'latin1',
      );
    case 'recode':
      return Buffer.from(bytes.toString('latin1'), change.coding as BufferEncoding);
    case 'token':
      return onToken(bytes, change.at, (token, next) => reshape(token, next, change.how));
    case 'again':
      return again(bytes, change.at, change.how, change.text);
    case 'undeclare':
      return undeclare(bytes, change.at);
    case 'attribute':
      return onToken(
        bytes,
        change.at,
        (tag, next) => tag.replace(/\/?>$/, binary(change.text) + '$&') + next,
      );
    case 'name':
      return onToken(bytes, change.at, (tag, next) => {
        const name = binary(change.text);
        const renamed = tag.replace(/^(<\/?)[^\s/>]+/, `$1${name}`);
        return change.both ? `${renamed}${next}</${name}>` : renamed + next;
      });
  }
}

export const mutated = (samples: readonly Sample[]): fc.Arbitrary<Sample> =>
  fc
    .tuple(fc.constantFrom(...samples), fc.array(edit, { minLength: 1, maxLength: 3 }))
    .map(([{ name, method, bytes }, edits]) => ({
      name,
      method,
      bytes: edits.reduce(apply, bytes),
    }));
