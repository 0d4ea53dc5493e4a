import { describe, expect, test } from '@jest/globals';
import { roleIdPath, roleListQuery } from '../../../../src/roles/role.ts';

describe('a role id', () => {
  test.each([
    ['1', 1],
    ['9007199254740991', Number.MAX_SAFE_INTEGER],
  ])('may be %s', (roleId, id) => {
    expect(roleIdPath.parse({ roleId })).toEqual({ roleId: id });
  });

  test.each([
    ...['0', '-1', '+1', '01', '1.0', '1e3', '0x1', ' 1', '1 ', 'abc', '', '١', '１', 'NaN'],
    ...['9007199254740992', '99999999999999999999', '1;DROP TABLE role'],
  ])('must not be %j', (roleId) => {
    expect(roleIdPath.safeParse({ roleId }).error?.issues).toMatchObject([
      { path: ['roleId'], message: 'must be a positive integer of at most 9007199254740991' },
    ]);
  });
});

describe('the query of the list', () => {
  const QUERY = { pageNum: '0', pageSize: '20', containsDesc: 'true' };

  test('counts pages from 0', () => {
    expect(roleListQuery.parse({ ...QUERY, pageNum: '3', RoleName: 'a', other: 'x' })).toEqual({
      ...{ pageNum: 3, pageSize: 20, containsDesc: true },
      ...{ nameContains: 'a', offset: 60 },
    });
  });

  test('lists all roles when no name is given', () => {
    expect(roleListQuery.parse(QUERY).nameContains).toBe('');
    expect(roleListQuery.parse({ ...QUERY, RoleName: '' }).nameContains).toBe('');
  });

  test.each([
    ['TRUE', true],
    ['True', true],
    ['False', false],
    ['false', false],
  ])('takes %s for descriptions', (containsDesc, expected) => {
    expect(roleListQuery.parse({ ...QUERY, containsDesc })).toMatchObject({
      containsDesc: expected,
    });
  });

  test('never asks for an offset that is no exact number', () => {
    const largest = { pageNum: '2147483647', pageSize: '2147483647' };
    expect(roleListQuery.parse({ ...QUERY, ...largest }).offset).toBe(Number.MAX_SAFE_INTEGER);
  });

  test.each([
    [{}, ['pageNum', 'pageSize', 'containsDesc']],
    [{ ...QUERY, pageNum: '-1' }, ['pageNum']],
    [{ ...QUERY, pageNum: '2147483648' }, ['pageNum']],
    [{ ...QUERY, pageNum: '' }, ['pageNum']],
    [{ ...QUERY, pageNum: ['0', '0'] }, ['pageNum']],
    [{ ...QUERY, pageSize: '0' }, ['pageSize']],
    [{ ...QUERY, pageSize: '1.5' }, ['pageSize']],
    [{ ...QUERY, pageSize: '99999999999' }, ['pageSize']],
    [{ ...QUERY, pageSize: ' 1' }, ['pageSize']],
    [{ ...QUERY, containsDesc: '1' }, ['containsDesc']],
    [{ ...QUERY, containsDesc: '' }, ['containsDesc']],
    [{ ...QUERY, RoleName: ['a', 'b'] }, ['RoleName']],
    [
      { pageNum: 'x', pageSize: 'y', containsDesc: 'z', RoleName: [] },
      [...Object.keys(QUERY), 'RoleName'],
    ],
  ])('is refused with every problem (%j)', (query, fields) => {
    const { issues = [] } = roleListQuery.safeParse(query).error ?? {};
    expect(issues.map(({ path }) => path.join('.'))).toEqual(fields);
  });
});
