import { describe, expect, test } from '@jest/globals';
import { clearTarget } from '../../../../src/engine/own-questions.ts';

const HOST = 'http://olap:7080';

describe('the path of the clearCache of an engine', () => {
  test.each([
    ['/mdx/xmla', '/mdx/xmla/clearCache', '/mdx/xmla/learn/clearCache'],
    ['/mdx/xmla/', '/mdx/xmla/clearCache', '/mdx/xmla/learn/clearCache'],
    ['/mdx/xmla/{project}', '/mdx/xmla/clearCache', '/mdx/xmla/learn/clearCache'],
    ['/mdx/xmla/{project}/', '/mdx/xmla/clearCache', '/mdx/xmla/learn/clearCache'],
    ['/mdx/xmla_server', '/mdx/xmla/clearCache', '/mdx/xmla/learn/clearCache'],
    ['/mdx/xmla_server/{project}', '/mdx/xmla/clearCache', '/mdx/xmla/learn/clearCache'],
    ['/a%20b/mdx/xmla', '/a%20b/mdx/xmla/clearCache', '/a%20b/mdx/xmla/learn/clearCache'],
    ['/{project}/mdx/xmla', '/mdx/xmla/clearCache', '/learn/mdx/xmla/learn/clearCache'],
    ['/mdx/xmla/mdx/xmla', '/mdx/xmla/mdx/xmla/clearCache', '/mdx/xmla/mdx/xmla/learn/clearCache'],
  ])('with engine.url %s is beside its XMLA', (path, everything, project) => {
    expect(clearTarget(HOST + path, undefined)).toBe(everything);
    expect(clearTarget(HOST + path, 'learn')).toBe(project);
  });

  test.each([
    ['a/b', 'a%2Fb'],
    ['%2e%2e', '%252e%252e'],
    ['%2F', '%252F'],
    ['Käse', 'K%C3%A4se'],
    ['销售', '%E9%94%80%E5%94%AE'],
    ['a?b#c;d&e', 'a%3Fb%23c%3Bd%26e'],
    ['a b+c', 'a%20b%2Bc'],
    ['$&$1', '%24%26%241'],
    ['...', '...'],
    ['a..b', 'a..b'],
    ['clearCache', 'clearCache'],
    ['{project}', '%7Bproject%7D'],
  ])('names the project %s in one segment', (project, segment) => {
    expect(clearTarget(`${HOST}/mdx/xmla/{project}`, project)).toBe(
      `/mdx/xmla/${segment}/clearCache`,
    );
  });

  test.each(['', '.', '..', 'a/..', '../a', '..\\a', 'a/./b', 'a/..;x/b', '..;', 'a\n', '\ud800'])(
    'names no project %j, by which it could be climbed',
    (project) => {
      expect(clearTarget(`${HOST}/mdx/xmla`, project)).toBeUndefined();
    },
  );
});
