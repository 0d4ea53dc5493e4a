import { describe, expect, test } from '@jest/globals';
import * as fc from 'fast-check';
import { readXmlaPath } from '../../../src/http/xmla-path.ts';
import { sizes } from '../../support/sizes.ts';
import { codePoint } from '../../support/code-point.ts';

const isName = (name: string) =>
  name !== '' && name !== '.' && name !== '..' && !/\p{Cc}/u.test(name) && name.isWellFormed();

const LIKE = { likeClearCache: true };

describe('the target of a request', () => {
  test.each([
    ['/mdx/xmla', { kind: 'xmla', project: undefined, search: '' }],
    ['/mdx/xmla/', { kind: 'xmla', project: undefined, search: '' }],
    ['/mdx/xmla?', { kind: 'xmla', project: undefined, search: '' }],
    ['/mdx/xmla/a%2Fb?x=%41?y', { kind: 'xmla', project: 'a/b', search: 'x=%41?y' }],
    ['http://h:1/mdx/xmla/a', { kind: 'xmla', project: 'a', search: '' }],
    ['http://h?/mdx/xmla/a', undefined],
    ['/mdx/xmla/clearCache', { kind: 'clear-cache', project: undefined }],
    ['/mdx/xmla/clearCache/?x', { kind: 'clear-cache', project: undefined }],
    ['/mdx/xmla/p/clearCache', { kind: 'clear-cache', project: 'p' }],
    ['/mdx/xmla/clearCache/clearCache', { kind: 'clear-cache', project: 'clearCache' }],
    ['/mdx/xmla/p/clearcache', { kind: 'not-found', ...LIKE }],
    ['/mdx/xmla/a/b/clearCache', { kind: 'not-found', ...LIKE }],
    ['/mdx/xmla/CLEARCACHE?x', { kind: 'xmla', project: 'CLEARCACHE', search: 'x', ...LIKE }],
    ['/mdx/xmla/%63learcache/', { kind: 'xmla', project: 'clearcache', search: '', ...LIKE }],
    ['/mdx/xmla/..%2f../clearCache', { kind: 'bad-project', message: expect.any(String), ...LIKE }],
    ['/mdx/xmla/%zz/clearcache', { kind: 'bad-project', message: expect.any(String), ...LIKE }],
    ['/mdx/xmla/clearcache/%zz', { kind: 'bad-project', message: expect.any(String) }],
    ['/mdx/xmla/p/clearCache/x', { kind: 'not-found' }],
    ['/mdx/xmla/p%2FclearCache', { kind: 'bad-project', message: expect.any(String) }],
    ['/mdx/xmla/p%2FclearCachex', { kind: 'xmla', project: 'p/clearCachex', search: '' }],
    ['/mdx/xmlas', undefined],
    ['/', undefined],
    ['', undefined],
    ['*', undefined],
  ])('%s is read as %j', (target, expected) => {
    expect(readXmlaPath(target)).toEqual(expected);
  });

  test('names no project by more than 255 bytes, as it is sent or folded', () => {
    const kindOf = (name: string) => readXmlaPath(`/mdx/xmla/${encodeURIComponent(name)}`)?.kind;
    const most = ['x'.repeat(255), '\u00E9'.repeat(127), '\uFDFA'.repeat(7)];
    expect(most.map(kindOf)).toEqual(['xmla', 'xmla', 'xmla']);
    expect(most.map((name) => kindOf(name + name.charAt(0)))).toEqual(
      most.map(() => 'bad-project'),
    );
  });

  test('names a project by its percent-encoding, whatever its name', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: codePoint }).filter((text) => text.isWellFormed()),
        (name) => {
          const read = readXmlaPath(`/mdx/xmla/x/../${encodeURIComponent(name)}`);
          expect(read?.kind).toBe('bad-project');
          const project = readXmlaPath(`/mdx/xmla/${encodeURIComponent(name)}?q`);
          if (name === '') expect(project).toMatchObject({ kind: 'xmla', project: undefined });
          else if (!isName(name)) expect(project?.kind).toBe('bad-project');
          else if (name === 'clearCache') expect(project?.kind).toBe('clear-cache');
          else expect(project).toEqual({ kind: 'xmla', project: name, search: 'q' });
        },
      ),
      { numRuns: sizes.propertyRuns },
    );
  });

  test('is never anything but a project that has a name, whatever is sent', () => {
    const piece = fc.constantFrom(
      '/',
      '%',
      '2',
      'e',
      '.',
      '%2e',
      '%2F',
      '%00',
      '?',
      '#',
      '\\',
      'é',
      'a',
      ':',
    );
    fc.assert(
      fc.property(fc.array(piece), (pieces) => {
        const read = readXmlaPath(`/mdx/xmla/${pieces.join('')}`);
        if (read?.kind !== 'xmla' && read?.kind !== 'clear-cache') return;
        expect(read.project === undefined || isName(read.project)).toBe(true);
      }),
      { numRuns: sizes.propertyRuns * 5 },
    );
  });
});
