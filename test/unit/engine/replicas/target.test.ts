import { describe, expect, test } from '@jest/globals';
import * as fc from 'fast-check';
import { systemClock } from '../../../../src/common/clock.ts';
import { createReplicas, engineTarget } from '../../../../src/engine/replicas.ts';
import { namesParameter, sortedQuery } from '../../../../src/proxy/forwarded.ts';
import { sizes } from '../../../support/sizes.ts';
import { engineConfig } from '../engine-house.ts';
import { codePoint } from '../../../support/code-point.ts';

describe('the path at the engine', () => {
  test.each([
    ['http://e/xmla', undefined, [], '/xmla'],
    ['http://e/xmla', 'p', ['a=1'], '/xmla?a=1'],
    ['http://e', undefined, [], '/'],
    ['http://e/{project}', undefined, [], '/'],
    ['http://e/{project}', 'p', [], '/p'],
    ['http://e/a/{project}/b/', 'p q', ['x'], '/a/p%20q/b/?x'],
    ['http://e/a/{project}/b', undefined, ['x', 'y=2'], '/a/b?x&y=2'],
    ['http://e/a/{project}', '$&', [], '/a/%24%26'],
    ['http://e/a%20b/{project}', 'ü', [], '/a%20b/%C3%BC'],
  ])('of %s for the project %j and the query %j is %s', (template, project, query, expected) => {
    expect(engineTarget(template)(project, query)).toBe(expected);
  });

  test('has exactly one segment more for a project, whatever its name', () => {
    const name = fc.string({ unit: codePoint, minLength: 1 });
    fc.assert(
      fc.property(
        name.filter((text) => text.isWellFormed() && text !== '.' && text !== '..'),
        (project) => {
          const target = engineTarget('http://e/x/{project}/y')(project, ['q=1']);
          const url = new URL(target, 'http://e');
          const parts = url.pathname.split('/');
          expect([parts.length, parts[1], parts[3], url.search]).toEqual([4, 'x', 'y', '?q=1']);
          expect(decodeURIComponent(parts[2] ?? '')).toBe(project);
        },
      ),
      { numRuns: sizes.propertyRuns },
    );
  });

  test('belongs to the origin of the engine', () => {
    const url = ['https://e:8443/a/{project}'];
    const [replica] = createReplicas(engineConfig(url), systemClock, true).all;
    expect(replica?.upstream.origin.href).toBe('https://e:8443/');
  });
});

describe('the query', () => {
  test('is sorted by name, and equal names keep their order', () => {
    expect(sortedQuery(['b=1', 'a=2', '%61=1', 'b=0', 'A'])).toEqual([
      'A',
      'a=2',
      '%61=1',
      'b=1',
      'b=0',
    ]);
  });

  test('of two requests that an engine reads alike is sorted alike', () => {
    const parameter = fc.constantFrom('a=1', 'a=2', 'b', 'c=3', 'd=4');
    fc.assert(
      fc.property(fc.uniqueArray(parameter, { selector: (p) => p[0] }), (list) => {
        expect(sortedQuery(list)).toEqual(sortedQuery(list.toReversed()));
      }),
    );
  });

  test.each([
    'execute_as_user_id=1',
    'x&EXECUTE_AS_USER_ID',
    '%65xecute%5Fas_user_id=',
    '?execute_as_user_id',
  ])('names a delegation: %s', (search) => {
    expect(namesParameter(search, 'execute_as_user_id')).toBe(true);
  });

  test.each(['', 'a=execute_as_user_id', 'execute_as_user_id2=1', 'execute-as-user-id=1'])(
    'names none: %s',
    (search) => {
      expect(namesParameter(search, 'execute_as_user_id')).toBe(false);
    },
  );
});
