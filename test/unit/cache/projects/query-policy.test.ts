import { describe, expect, test } from '@jest/globals';
import * as fc from 'fast-check';
import type { Config } from '../../../../src/config/config.ts';
import type { ProjectConfig } from '../../../../src/cache/config.ts';
import { projectPolicy } from '../../../../src/cache/projects.ts';
import type { NamedCubes } from '../../../../src/xmla/request/named-objects.ts';
import { sizes } from '../../../support/sizes.ts';

const HOUR = 3_600_000;
const NO_CUBES: NamedCubes = { cubes: [], certain: true, excess: undefined };
const UNKNOWN: NamedCubes = { cubes: [], certain: false, excess: undefined };
const cubes = (...names: string[]): NamedCubes => ({
  cubes: names,
  certain: true,
  excess: undefined,
});

type Project = Partial<Omit<ProjectConfig, 'cubes' | 'engine' | 'watch'>> & {
  readonly cubes?: Record<string, 'on' | 'off'>;
};

function policyOf(projects: Record<string, Project>) {
  const cache = { ttl: HOUR, stale_if_error: 0, share: 'everyone', functions: ['Common'] } as const;
  return projectPolicy({
    cache: cache as unknown as Config['cache'],
    projects: new Map(
      Object.entries(projects).map(([name, { cubes: switched = {}, ...rest }]) => {
        const project: Omit<ProjectConfig, 'engine' | 'watch'> = {
          cache: 'on',
          ttl: HOUR,
          stale_if_error: 0,
          share: 'everyone',
          functions: cache.functions,
          ...rest,
          cubes: new Map(Object.entries(switched)),
        };
        return [name, project as ProjectConfig];
      }),
    ),
  });
}

describe('the policy of a query', () => {
  const policy = policyOf({
    Short: { ttl: 10, share: 'roles' },
    Private: { share: 'user' },
    Off: { cache: 'off' },
  });

  test.each([
    ['no project', [], false, { cache: 'on', ttl: HOUR, share: 'everyone' }],
    [
      'a project that is not configured',
      ['x'],
      false,
      { cache: 'on', ttl: HOUR, share: 'everyone' },
    ],
    ['one project', ['Short'], false, { cache: 'on', ttl: 10, share: 'roles' }],
    ['a project in another spelling', [' sHORT '], false, { cache: 'on', ttl: 10, share: 'roles' }],
    ['two projects', ['Private', 'Short'], false, { cache: 'on', ttl: 10, share: 'user' }],
    ['one that is off', ['Short', 'Off'], false, { cache: 'off', ttl: 10, share: 'roles' }],
    ['any project', ['x'], true, { cache: 'off', ttl: 10, share: 'user' }],
  ] as const)('of %s is the strictest that may concern it', (_what, projects, spans, expected) => {
    expect(policy(projects, spans, NO_CUBES)).toMatchObject(expected);
    // No cube is configured, so that it is no matter which ones are read.
    expect(policy(projects, spans, UNKNOWN)).toMatchObject(expected);
  });
});

describe('of projects whose names count as the same', () => {
  const projects: Record<string, Project> = {
    Sales: { cache: 'on', ttl: 30, share: 'everyone', cubes: { Live: 'off' } },
    sALES: { ttl: 10, share: 'roles' },
    Ｓales: { ttl: 20, share: 'user', cubes: { Ｌive: 'on', Stock: 'off' } },
  };
  const names = Object.keys(projects);
  const reversed = Object.fromEntries(Object.entries(projects).toReversed());

  test.each([
    ['as they stand', projects],
    ['the other way round', reversed],
  ])('the strictest settings count, whichever is asked for (%s)', (_order, configured) => {
    const policy = policyOf(configured);
    const one = (name: string, cubesNamed: NamedCubes) => policy([name], false, cubesNamed);
    const open = { cache: 'on', ttl: 10, share: 'user' };
    for (const name of [...names, 'ＳＡＬＥＳ']) {
      expect(one(name, cubes('Budget'))).toMatchObject(open);
      expect(one(name, cubes('Ｌive'))).toMatchObject({ ...open, cache: 'off' });
      expect(one(name, cubes('stock'))).toMatchObject({ ...open, cache: 'off' });
    }
    const closed = policyOf({ ...configured, ＳALES: { cache: 'off' } });
    for (const name of names) expect(closed([name], false, NO_CUBES).cache).toBe('off');
  });
});

describe('a cube that is off', () => {
  const policy = policyOf({
    Shop: { ttl: 10, cubes: { 'Live Sales': 'off', Budget: 'on' } },
    Other: { ttl: 20 },
    Closed: { cache: 'off', cubes: { Open: 'on' } },
  });
  const cacheFor = (projects: readonly string[], named: NamedCubes, spans = false) =>
    policy(projects, spans, named).cache;

  test('switches the cache off for what names it, alone or among others', () => {
    expect(cacheFor(['Shop'], cubes('Live Sales'))).toBe('off');
    expect(cacheFor(['Shop'], cubes('Budget', 'Live Sales'))).toBe('off');
    expect(cacheFor(['Other', 'Shop'], cubes('Live Sales'))).toBe('off');
  });

  test('leaves other cubes, other projects and what holds no cube alone', () => {
    expect(cacheFor(['Shop'], cubes('Budget'))).toBe('on');
    expect(cacheFor(['Shop'], cubes('Live Sales 2'))).toBe('on');
    expect(cacheFor(['Shop'], NO_CUBES)).toBe('on');
    expect(cacheFor(['Other'], cubes('Live Sales'))).toBe('on');
    expect(cacheFor(['Other'], UNKNOWN)).toBe('on');
    expect(cacheFor([], UNKNOWN)).toBe('on');
  });

  test('changes nothing else of the policy', () => {
    expect(policy(['Shop'], false, cubes('Live Sales'))).toMatchObject({
      cache: 'off',
      ttl: 10,
      share: 'everyone',
    });
  });

  test('switches the cache off for what may read any cube of its project', () => {
    expect(cacheFor(['Shop'], UNKNOWN)).toBe('off');
    expect(cacheFor(['Shop'], { cubes: ['Budget'], certain: false, excess: undefined })).toBe(
      'off',
    );
  });

  test('switches the cache off for what may come from any project', () => {
    const spanning = policyOf({ Shop: { cubes: { 'Live Sales': 'off' } }, Other: {} });
    expect(spanning(['Other'], true, cubes('Live Sales')).cache).toBe('off');
    expect(spanning([], true, UNKNOWN).cache).toBe('off');
    expect(spanning(['Other'], true, cubes('Budget')).cache).toBe('on');
    expect(spanning([], true, NO_CUBES).cache).toBe('on');
  });

  test.each([
    'live sales',
    'LIVE SALES',
    ' Live Sales\t',
    'Live\u00a0Sales',
    'Ｌｉｖｅ Sales',
    'Live Saleſ',
    'Ｌｉｖｅ　Ｓａｌｅｓ',
    'Live Sa\u00adles',
  ])('counts as %j too', (name) => {
    expect(cacheFor(['Shop'], cubes(name))).toBe('off');
  });

  test('is not switched on in a project that is off', () => {
    expect(cacheFor(['Closed'], cubes('Open'))).toBe('off');
  });

  test('is found under any spelling of its letters', () => {
    const spelling = fc.constantFrom<(name: string) => string>(
      (name) => name,
      (name) => name.toUpperCase(),
      (name) => name.toLowerCase(),
      (name) => name.normalize('NFD'),
      (name) => name.normalize('NFC'),
      (name) => ` ${name}\n`,
    );
    fc.assert(
      fc.property(
        fc.string({ unit: 'grapheme', minLength: 1 }).filter((name) => name.trim() !== ''),
        spelling,
        spelling,
        (name, configured, asked) => {
          const one = policyOf({ Shop: { cubes: { [configured(name)]: 'off' } } });
          expect(one(['Shop'], false, cubes(asked(name))).cache).toBe('off');
        },
      ),
      { numRuns: sizes.propertyRuns },
    );
  });
});

describe('functions that are said to be stable', () => {
  const policy = policyOf({
    Shop: { functions: ['Common', 'ſhopDay', 'Both.Fn'] },
    Stock: { functions: ['Common', 'both.FN'] },
  });
  const allowed = (projects: readonly string[], spans = false) =>
    [...policy(projects, spans, NO_CUBES).functions].sort();

  test('are those of the one project, folded', () => {
    expect(allowed(['shop'])).toEqual(['both.fn', 'common', 'shopday']);
  });

  test('are what all projects allow that may be read', () => {
    expect(allowed(['Shop', 'Stock'])).toEqual(['both.fn', 'common']);
    expect(allowed(['Shop', 'Other'])).toEqual(['common']);
    expect(allowed([])).toEqual(['common']);
    expect(allowed(['Shop'], true)).toEqual(['common']);
  });
});
