import { describe, expect, test } from '@jest/globals';
import * as fc from 'fast-check';
import { MAX_HEADER_LENGTH, readBasicCredentials } from '../../../../src/auth/authenticator.ts';
import { basic } from '../support.ts';
import { sizes } from '../../../support/sizes.ts';
import { codePoint } from '../../../support/code-point.ts';

const token = (bytes: readonly number[] | string): string =>
  Buffer.from(bytes as string).toString('base64');

describe('Basic credentials', () => {
  test('any name without a colon and any password come back as they were sent', () => {
    const text = fc
      .string({ unit: codePoint, maxLength: 200 })
      .filter((value) => value.isWellFormed() && !/\p{Cc}/u.test(value));
    const name = text.filter((value) => value !== '' && !value.includes(':'));
    fc.assert(
      fc.property(name, text, (name, password) => {
        expect(readBasicCredentials(basic(name, password))).toMatchObject({ name, password });
      }),
    );
  });

  test('no header value makes it throw, and what it accepts has exactly one token', () => {
    const near = fc.tuple(
      fc.constantFrom('Basic ', 'basic  ', ' BASIC ', 'Basic', 'Basic\t', ''),
      fc.oneof(fc.base64String(), fc.string(), fc.string({ unit: codePoint })),
    );
    fc.assert(
      fc.property(near, ([scheme, rest]) => {
        const result = readBasicCredentials(scheme + rest);
        if (typeof result === 'string') return;
        const { name, password, encoding } = result;
        const bytes = Buffer.from(`${name}:${password}`, encoding === 'utf-8' ? 'utf8' : 'latin1');
        expect((scheme + rest).trim().split(/ +/)[1]).toBe(bytes.toString('base64'));
        expect(result.authorization).toBe(`Basic ${bytes.toString('base64')}`);
      }),
      { numRuns: sizes.propertyRuns * 4 },
    );
  });

  test.each([
    ['a colon in the password', basic('name', 'pass:extra'), 'name', 'pass:extra'],
    ['an empty password', basic('name', ''), 'name', ''],
    ['spaces around the name', basic(' name ', 'p'), ' name ', 'p'],
    ['a composed é', basic('Jos\u00e9', 'p'), 'Jos\u00e9', 'p'],
    ['a decomposed é', basic('Jose\u0301', 'p'), 'Jose\u0301', 'p'],
    ['another letter case', basic('name', 'p').replace('Basic', 'bAsIC'), 'name', 'p'],
    ['two spaces after the scheme', basic('name', 'p').replace(' ', '  '), 'name', 'p'],
    ['spaces at the end', `${basic('name', 'p')}  `, 'name', 'p'],
    ['a byte order mark, which belongs to the name', basic('\ufeffname', 'p'), '\ufeffname', 'p'],
    ['no prototype', basic('__proto__', 'constructor'), '__proto__', 'constructor'],
  ])('%s is kept', (_case, header, name, password) => {
    expect(readBasicCredentials(header)).toMatchObject({ name, password, encoding: 'utf-8' });
  });

  test.each([
    ['nothing', ''],
    ['only spaces', '   '],
    ['only the scheme', 'Basic'],
    ['no token', 'Basic '],
    ['a tab after the scheme', basic('name', 'p').replace(' ', '\t')],
    ['no colon', `Basic ${token('name')}`],
    ['an empty name', basic('', 'p')],
    ['a NUL in the password', basic('name', 'p\0q')],
    ['a NUL in the name', basic('na\0me', 'p')],
    ['a line end in the name', basic('name\r\nX: y', 'p')],
    ['DEL', basic('name', 'p\x7f')],
    ['a C1 control', basic('na\u0085me', 'p')],
    ['a token of another alphabet', `Basic ${token('name:???>>>').replace(/[+/]/g, '_')}`],
    ['a token without its padding', basic('name', 'pw').replace(/=+$/, '')],
    ['a token with bits that do not belong', 'Basic YTpiZB=='],
    ['padding in the middle', `Basic ${token('a:')}=${token('b')}`],
    ['an encoded surrogate', `Basic ${token([0x61, 0xed, 0xa0, 0x80, 0x3a, 0x70])}`],
    ['an overlong NUL', `Basic ${token([0x61, 0xc0, 0x80, 0x3a, 0x70])}`],
    ['a lone surrogate in the header', 'Basic \ud800'],
    ['a Bearer token', 'Basic eyJhbGciOiJub25lIn0.eyJzdWIiOiJBRE1JTiJ9.'],
    ['two credentials', `${basic('name', 'p')}, ${basic('ADMIN', 'p')}`],
    ['two tokens', `${basic('name', 'p')} ${token('ADMIN:p')}`],
    ['auth-params', 'Basic realm="x"'],
    ['raw name and password', 'Basic name:p'],
    ['a letter that folds to s', basic('name', 'p').replace('s', '\u017f')],
    ['a huge header', basic('name', 'p'.repeat(MAX_HEADER_LENGTH))],
    ['a huge run of spaces', `Basic ${' '.repeat(16_000)}x`],
  ])('%s is malformed', (_case, header) => {
    expect(readBasicCredentials(header)).toEqual(expect.any(String));
  });

  test('the longest header is read, one character more is not', () => {
    const longest = basic('n', 'p'.repeat(3064));
    expect(longest.length).toBeLessThanOrEqual(MAX_HEADER_LENGTH);
    expect(readBasicCredentials(longest)).toMatchObject({ name: 'n' });
    const padded = longest.padEnd(MAX_HEADER_LENGTH, ' ');
    expect(readBasicCredentials(padded)).toMatchObject({ name: 'n' });
    expect(readBasicCredentials(`${padded} `)).toEqual(expect.any(String));
  });

  test.each([
    'Negotiate YIIFzQ==',
    'NTLM TlRMTVNTUAABAAAA',
    'Bearer eyJhbGciOiJub25lIn0.e30.',
    'Digest username="ADMIN"',
    'Negotiate',
    'Basics YTpi',
    // A bare token cannot be told from a scheme.
    'bmFtZTpw',
    `Negotiate ${'A'.repeat(10_000)}`,
  ])('%.40s asks for another scheme', (header) => {
    expect(readBasicCredentials(header)).toEqual(expect.any(String));
  });
});
