import { describe, expect, test } from '@jest/globals';
import { acceptsGzip } from '../../../../src/http/request-head.ts';

describe('gzip is sent to clients that ask for it', () => {
  test.each([
    'gzip',
    'GZip',
    'x-gzip',
    'gzip, deflate, br, zstd',
    'deflate,gzip;q=1.0, *;q=0.5',
    'gzip;q=0.001',
    'gzip ; Q=0.5',
    'gzip\t;\tq=1.000 ,',
    ', ,gzip',
    '*',
    '*;q=0.1',
    'br, *',
    'gzip, identity',
    'gzip;q=0.5, identity;q=0.5',
    'identity;q=0, gzip;q=0.1',
    'gzip, *;q=0',
    'identity;q=0.2, *;q=0.3',
  ])('%j', (header) => {
    expect(acceptsGzip(header)).toBe(true);
  });
});

describe('gzip is sent to nobody who', () => {
  test.each([
    ['says nothing', undefined],
    ['says that nothing is known', ''],
    ['names nothing', ' , '],
    ['names other codings', 'deflate, br'],
    ['wants the answer as it is', 'identity'],
    ['would rather have it as it is', 'gzip;q=0.5, identity'],
    ['would rather have it as it is', 'gzip;q=0.5, *'],
    ['refuses it', 'gzip;q=0'],
    ['refuses it', 'gzip;q=0.000, *'],
    ['refuses it by its old name', 'x-gzip;q=0, *'],
    ['refuses whatever is not named', '*;q=0'],
    ['refuses it once', 'gzip, gzip;q=0'],
    ['refuses it once', 'gzip;q=0, gzip'],
    ['refuses it once', 'x-gzip, gzip;q=0'],
  ])('%s (%j)', (_what, header) => {
    expect(acceptsGzip(header)).toBe(false);
  });
});

describe('a header that breaks the rules asks for nothing', () => {
  test.each([
    'gzip;q=2',
    'gzip;q=1.001',
    'gzip;q=0.1234',
    'gzip;q=-1',
    'gzip;q=.5',
    'gzip;q=1e0',
    'gzip;q=',
    'gzip;q',
    'gzip;',
    'gzip;q= 1',
    'gzip;q="1"',
    'gzip;level=6',
    'gzip;q=1;q=1',
    'gzip deflate',
    'gzip/1',
    'gzip, "br"',
    'gzip; q=1, b r',
    'gzip\u00a0',
    '\u00e9, gzip',
  ])('%j', (header) => {
    expect(acceptsGzip(header)).toBe(false);
  });
});
