import { describe, expect, test } from '@jest/globals';
import { readRequest } from '../../../../src/xmla/request/read-request.ts';
import {
  sessionIdsInLong,
  sessionIdsInUnread,
  textToJudge,
} from '../../../../src/xmla/request/session-ids.ts';
import { MAX_NODES } from '../../../../src/xml/xml-scanner.ts';
import { execute } from '../../../support/envelopes.ts';

const TYPE = 'text/xml; charset=utf-8';
const inSession = (statement: string) =>
  execute({ statement, session: { kind: 'in', id: 'a&b' } }).toString();

/** So many bytes that they could be UTF-16. */
const even = (text: string) => Buffer.from(text.length % 2 === 0 ? text : `${text} `);

function idsOf(body: Buffer | string, contentType = TYPE) {
  const reading = readRequest(Buffer.from(body), contentType);
  if (reading.kind === 'refused') throw new Error(reading.detail);
  return reading.kind === 'understood' ? reading.request.sessionIds : reading.sessionIds;
}

describe('no session is overlooked', () => {
  const second = '<y:Session xmlns:y="urn:other" SessionId="second"/>';
  test.each([
    ['of an ordinary request', inSession('x'), ['a&b']],
    [
      'in a second element',
      inSession('x').replace('<SOAP-ENV:Body>', `${second}<SOAP-ENV:Body>`),
      ['a&b', 'second'],
    ],
    [
      'in a second Header',
      inSession('x').replace(
        '<SOAP-ENV:Body>',
        `<SOAP-ENV:Header>${second}</SOAP-ENV:Header><SOAP-ENV:Body>`,
      ),
      ['a&b', 'second'],
    ],
    [
      'beside a second Body',
      inSession('x').replace('<SOAP-ENV:Body>', '<SOAP-ENV:Body/><SOAP-ENV:Body>'),
      ['a&b'],
    ],
    ['under another root', `<x>${second}</x>`, ['second']],
    ['in other letters', inSession('x').replace('SessionId', 'sessionID'), ['a&b']],
    ['named nowhere', execute({ statement: 'x' }), []],
  ])('%s', (_name, body, ids) => {
    expect(idsOf(body)).toEqual(ids);
  });

  test.each([
    ['a body that breaks off', inSession('x').slice(0, -20), TYPE],
    ['an encoding that contradicts itself', inSession('x'), 'text/xml; charset=utf-16'],
    ['an encoding that nobody knows', inSession('x'), 'text/xml; charset=x-unknown'],
    ['an encoding of several bytes', inSession('\u00E4'), 'text/xml; charset=shift_jis'],
    ['UTF-16 that nothing names', Buffer.from(inSession('x'), 'utf16le'), 'text/xml'],
    ['UTF-8 that is called UTF-16', even(inSession('x')), 'text/xml; charset=utf-16be'],
    [
      'a declared encoding of other letters',
      inSession('x').replace('UTF-8', 'UTF-7').replaceAll('Session', '+AFM-ession'),
      'text/xml',
    ],
    ['XML 1.1', inSession('x').replace('version="1.0"', 'version="1.1"'), TYPE],
  ])('%s may name any', (_name, body, contentType) => {
    expect(idsOf(body, contentType)).toBe('unknown');
  });

  test.each([
    ['that breaks off', execute({ statement: 'x' }).subarray(0, -20), TYPE],
    ['in an unknown encoding', execute({ statement: 'x' }), 'text/xml; charset=shift_jis'],
    ['of nothing', Buffer.alloc(0), TYPE],
    ['of no XML', Buffer.from('hello'), TYPE],
    [
      'in UTF-16 that nothing names',
      Buffer.from(execute({ statement: 'x' }).toString(), 'utf16le'),
      'text/xml',
    ],
  ])('a body %s that does not hold the word names none', (_name, body, contentType) => {
    expect(idsOf(body, contentType)).toEqual([]);
  });

  test.each(['us-ascii', 'ISO-8859-1'])('%s is read as any other encoding', (label) => {
    const body = inSession('x').replace('UTF-8', label);
    expect(idsOf(body, 'text/xml')).toEqual(['a&b']);
    const odd = body.replace('a&amp;b', 'Gr\u00F6\u00DFe');
    // As UTF-8 it would be another one.
    expect(idsOf(Buffer.from(odd, 'latin1'), 'text/xml')).toBe('unknown');
  });

  test('letters that are not those of ASCII hide what they say', () => {
    // `<Session` in EBCDIC (code page 37), and in UTF-7.
    const ebcdic = Buffer.from([0x4c, 0xe2, 0x85, 0xa2, 0xa2, 0x89, 0x96, 0x95]);
    expect(sessionIdsInUnread(ebcdic, TYPE)).toBe('unknown');
    expect(sessionIdsInUnread(Buffer.from('+ADw-Ses+AHM-ion'), TYPE)).toBe('unknown');
    expect(sessionIdsInUnread(Buffer.from('\uFEFF<Session', 'utf16le'), TYPE)).toBe('unknown');
    expect(sessionIdsInUnread(Buffer.from('\uFEFF<Envelope', 'utf16le'), TYPE)).toEqual([]);
  });
});

describe('the text of a body in another encoding', () => {
  const ASCII = execute({ statement: 'SELECT \\ FROM [a]' }).toString();
  const textIn = (charset: string, text: string, type = `text/xml; charset=${charset}`) =>
    textToJudge(Buffer.from(text, 'latin1'), type)?.utf8.toString();

  test.each([
    'windows-1252',
    'gb2312',
    'GBK',
    'shift_jis',
    'big5',
    'euc-kr',
    'koi8-u',
    'ISO-8859-15',
  ])('is certain where it is ASCII: %s', (charset) => {
    expect(textIn(charset, ASCII)).toBe(ASCII);
    // Both are taken, and have the same letters.
    const declared = ASCII.replace('UTF-8', charset);
    expect(textIn(charset, declared, 'text/xml; charset=utf-8')).toBe(declared);
  });

  test.each([
    ['windows-1252', '\u0080\u00E9', '\u20AC\u00E9'],
    ['windows-1251', '\u00CF', '\u041F'],
    ['cp1250', '\u00E8', '\u010D'],
    ['koi8-r', '\u00F0', '\u041F'],
    ['iso-8859-9', '\u00FD', '\u0131'],
  ])('is certain in an encoding of one byte: %s', (charset, bytes, letters) => {
    expect(textIn(charset, `<a>${bytes}</a>`)).toBe(`<a>${letters}</a>`);
  });

  test('is not certain where the declaration may name one behind many blanks', () => {
    const hidden = ASCII.replace(' encoding="UTF-8"', `${' '.repeat(1_100)} encoding="utf-7"`);
    expect(hidden).toContain('utf-7');
    expect(textIn('', hidden, 'text/xml')).toBeUndefined();
  });

  test.each([
    ['utf-7', ASCII],
    ['iso-2022-jp', ASCII],
    ['hz-gb-2312', ASCII],
    ['utf-16', ASCII],
    ['ebcdic-cp-us', ASCII],
    ['x-unknown', ASCII],
    ['gb2312', `${ASCII}<!-- ~{ -->`],
    ['windows-1252', `${ASCII}<!-- \u001B$B -->`],
    ['gbk', '<a>\u00C4\u00E3</a>'],
    ['shift_jis', '<a>\u0083A</a>'],
    ['us-ascii', '<a>\u00E9</a>'],
    ['utf-8', '<a>\u00E9</a>'],
    ['iso-8859-12', '<a>\u00E9</a>'],
    // Undefined there, or a control character.
    ['windows-1253', '<a>\u00AA</a>'],
    ['windows-1252', '<a>\u0081</a>'],
    ['iso-8859-9', '<a>\u0085</a>'],
    ['windows-1252', 'no XML'],
  ])('is not certain otherwise: %s, %j', (charset, text) => {
    expect(textIn(charset, text)).toBeUndefined();
  });

  test('is not certain where two encodings are named and one of them is in use', () => {
    const text = ASCII.replace('UTF-8', 'windows-1252').replace('[a]', '[\u00E9]');
    expect(textIn('windows-1252', text)).toContain('[\u00E9]');
    expect(textIn('windows-1251', text)).toBeUndefined();
  });
});

describe('a long body', () => {
  const turns = { count: 0 };
  const nextTurn = async () => {
    turns.count += 1;
  };
  const long = 'x'.repeat(2_000_000);

  test('is searched piece by piece, so that others have their turn', async () => {
    turns.count = 0;
    const ids = await sessionIdsInLong(Buffer.from(inSession(long)), TYPE, nextTurn);
    expect(ids).toEqual(['a&b']);
    expect(turns.count).toBeGreaterThan(20);
  });

  test('that breaks off may name any', async () => {
    const body = Buffer.from(inSession(long)).subarray(0, -10);
    expect(await sessionIdsInLong(body, TYPE, nextTurn)).toBe('unknown');
  });

  test('in UTF-16 that nothing names may name any', async () => {
    const body = Buffer.from(inSession(long), 'utf16le');
    expect(await sessionIdsInLong(body, 'text/xml', nextTurn)).toBe('unknown');
  });

  test('in ISO-8859-1 may name any when an id is not ASCII, since other engines read UTF-8', async () => {
    const body = Buffer.from(inSession(long).replace('a&amp;b', '\u00F6'), 'latin1');
    const type = 'text/xml; charset=iso-8859-1';
    expect(await sessionIdsInLong(body, type, nextTurn)).toBe('unknown');
  });

  test('of another version of XML may name any', async () => {
    const body = Buffer.from(inSession(long).replace('version="1.0"', 'version="1.1"'));
    expect(await sessionIdsInLong(body, TYPE, nextTurn)).toBe('unknown');
  });

  test.each([
    ['in another namespace', '<x:Session xmlns:x="urn:other" x:SessionId="second"/>'],
    ['under a prefix of nobody', '<x:Session y:SessionId="second"/>'],
  ])('shows also an id %s', async (_what, block) => {
    const body = Buffer.from(inSession(long).replace('<SOAP-ENV:Body>', `${block}<SOAP-ENV:Body>`));
    expect(await sessionIdsInLong(body, TYPE, nextTurn)).toEqual(['a&b', 'second']);
  });

  test.each([
    ['bare', '<x:b>'],
    ['each with a prefix of its own', '<x:b xmlns:x="u">'],
  ])('is read no further than the depth that is refused: %s', async (_what, tag) => {
    const body = Buffer.from(`<x:session xmlns:x="u">${tag.repeat(200_000)}`);
    turns.count = 0;
    expect(await sessionIdsInLong(body, TYPE, nextTurn)).toBe('too-deep');
    expect(turns.count).toBe(0);
    const within = `<session>${'<b>'.repeat(63)}${'<b/>'.repeat(9)}${'</b>'.repeat(63)}</session>`;
    const deep = Buffer.from(within.replace('<b>', '<b a="x">').padEnd(1_100_000, ' '));
    expect(await sessionIdsInLong(deep, TYPE, nextTurn)).toBe('too-deep');
    const flat = Buffer.from(within.replace('<b/>', '').replaceAll('<b/>', ''));
    expect(await sessionIdsInLong(flat, TYPE, nextTurn)).toEqual([]);
  });

  test('is read no further than the attributes that are too many', async () => {
    const many = Array.from({ length: 300_000 }, (_, at) => `a${at}=""`).join(' ');
    turns.count = 0;
    expect(await sessionIdsInLong(Buffer.from(`<session ${many}/>`), TYPE, nextTurn)).toBe(
      'unknown',
    );
    const read = turns.count * 32 * 1024;
    expect(read).toBeLessThan((MAX_NODES + 1) * 'a123456="" '.length);
    const spread = `<session>${'<b SessionId="x"/>'.repeat(MAX_NODES + 1)}</session>`;
    expect(await sessionIdsInLong(Buffer.from(spread), TYPE, nextTurn)).toBe('unknown');
    const allowed = `<session>${'<b SessionId="x"/>'.repeat(MAX_NODES)}</session>`;
    expect(await sessionIdsInLong(Buffer.from(allowed), TYPE, nextTurn)).toEqual(['x']);
  });

  test('without the word is not parsed', async () => {
    turns.count = 0;
    expect(await sessionIdsInLong(execute({ statement: long }), TYPE, nextTurn)).toEqual([]);
    expect(turns.count).toBe(0);
  });
});
