import { describe, expect, test } from '@jest/globals';
import { INJECTION_STRINGS } from '../../support/injection-strings.ts';
import { createTestApi, dataOf, failureOf, LIMITS } from './support-api.ts';

const user = (name: string) => ({ type: 'user', name });
const SALES = { name: 'Sales', contains: [user('alice')], description: 'all of it' };

/** A house with one role, number 2. */
async function withSales() {
  const api = createTestApi();
  await api.ask('POST', '/role', { body: SALES });
  api.invalidated.length = 0;
  return api;
}

describe('a field that is given more than once', () => {
  const REST = '"contains":[{"type":"user","name":"alice"}],"description":""';

  test.each([
    ['in another spelling', `{"name":"p2","n\\u0061me":"p3",${REST}}`, ['name']],
    ['with the same value', `{"name":"Sales","name":"Sales",${REST}}`, ['name']],
    ['in all its letters', `{"name":"p","\\u006e\\u0061\\u006d\\u0065":"q",${REST}}`, ['name']],
    [
      'by name, description and contains',
      `{"contains":[],${REST},"name":"a","description":"b","name":"c"}`,
      ['contains', 'description', 'name'],
    ],
  ])('is refused (%s)', async (_what, body, fields) => {
    const { ask } = await withSales();
    const refused = `400 [bad-request] ${fields.map((field) => `${field}: is given more than once`).join('; ')}.`;
    for (const [method, path] of [
      ['POST', '/role'],
      ['PUT', '/role/2'],
      ['POST', '/role/user/visibility/2'],
      ['DELETE', '/role/user/visibility/2'],
    ] as const) {
      expect(failureOf(await ask(method, path, { body }))).toBe(refused);
    }
    expect(dataOf(await ask('GET', '/role/2'))).toEqual(SALES);
  });

  test('is told beside the other problems', async () => {
    const { ask } = createTestApi();
    const body = '{"name":"a","name":" ","contains":[],"description":1}';
    expect(failureOf(await ask('POST', '/role', { body }))).toBe(
      '400 [bad-request] name: is given more than once; name: must not begin or end with white space; ' +
        'description: must be a string.',
    );
  });

  test('is no matter where nobody reads it', async () => {
    const { ask } = createTestApi();
    const body = '{"x":1,"x":2,"name":"a","contains":[],"description":"","in":{"name":1,"name":2}}';
    expect(dataOf(await ask('POST', '/role', { body }))).toEqual({ role_id: 2 });
  });
});

describe('the operations of §4.1', () => {
  test('create a role and answer its id; the built-in one has the first', async () => {
    const { ask } = createTestApi();
    expect(dataOf(await ask('POST', '/role', { body: SALES }))).toEqual({ role_id: 2 });
    expect(dataOf(await ask('POST', '/role', { body: { ...SALES, name: 'B' } }))).toEqual({
      role_id: 3,
    });
    expect(dataOf(await ask('GET', '/role/2'))).toEqual(SALES);
    expect(dataOf(await ask('GET', '/role/1'))).toMatchObject({
      name: 'Admin',
      contains: [user('ADMIN')],
    });
  });

  test('answer exactly the fields of the interface document', async () => {
    const { ask } = await withSales();
    const { body } = await ask('GET', '/role/2');
    expect(body.toString()).toBe(
      '{"status":0,"data":{"name":"Sales","description":"all of it","contains":[{"type":"user","name":"alice"}]}}',
    );
  });

  test('replace all three fields and keep the id', async () => {
    const { ask } = await withSales();
    const body = { name: 'Buying', contains: [user('bob'), user('Bob')], description: '' };
    expect(dataOf(await ask('PUT', '/role/2', { body }))).toEqual({ role_id: 2 });
    expect(dataOf(await ask('GET', '/role/2'))).toEqual({ ...body, contains: [user('bob')] });
  });

  test('add a user to a role and remove one, whatever the letter case', async () => {
    const { ask } = await withSales();
    const path = '/role/user/visibility/2';
    const bob = { name: 'SALES', contains: [user('Bob')], description: '' };
    expect(dataOf(await ask('POST', path, { body: bob }))).toBe('success');
    expect(dataOf(await ask('GET', '/role/2'))).toMatchObject({
      contains: [user('alice'), user('Bob')],
    });
    const { description: _none, ...alice } = { ...bob, contains: [user('ALICE')] };
    expect(dataOf(await ask('DELETE', path, { body: alice }))).toBe('success');
    expect(dataOf(await ask('GET', '/role/2'))).toMatchObject({ contains: [user('Bob')] });
  });

  test('delete a role, whose id is not given again', async () => {
    const { ask } = await withSales();
    expect(dataOf(await ask('DELETE', '/role/2'))).toBe('success');
    expect(failureOf(await ask('GET', '/role/2'))).toMatch(/^404 \[no-such-role\] roleId: /);
    expect(dataOf(await ask('POST', '/role', { body: SALES }))).toEqual({ role_id: 3 });
  });

  test('list roles page by page, newest first', async () => {
    const { ask } = createTestApi();
    for (const name of ['Alpha', 'Beta', '100%', 'a_b']) {
      await ask('POST', '/role', { body: { ...SALES, name } });
    }
    const list = async (query: string) => dataOf(await ask('GET', `/roles?${query}`));
    expect(await list('pageNum=0&pageSize=2&containsDesc=true')).toEqual({
      pageNum: 0,
      pageSize: 2,
      list: [
        { id: 5, name: 'a_b', description: 'all of it' },
        { id: 4, name: '100%', description: 'all of it' },
      ],
      total: 5,
    });
    expect(await list('pageSize=2&pageNum=2&containsDesc=False&RoleName=')).toEqual({
      pageNum: 2,
      pageSize: 2,
      list: [{ id: 1, name: 'Admin' }],
      total: 5,
    });
    expect(await list('pageNum=9&pageSize=2&containsDesc=false')).toMatchObject({
      list: [],
      total: 5,
    });
    const named = (name: string) =>
      list(`pageNum=0&pageSize=9&containsDesc=false&RoleName=${name}`);
    expect(await named('ALPH')).toMatchObject({ list: [{ name: 'Alpha' }], total: 1 });
    expect(await named('%25')).toMatchObject({ list: [{ name: '100%' }], total: 1 });
    expect(await named('_')).toMatchObject({ list: [{ name: 'a_b' }], total: 1 });
    expect(await named('no+such')).toMatchObject({ list: [], total: 0 });
  });

  test('take text that others would take for more than data', async () => {
    const { ask } = createTestApi();
    const texts = INJECTION_STRINGS.filter(
      (text) =>
        text === text.trim() && !/[\p{Cc}\u2028\u2029\u202e]/u.test(text) && text.length < 128,
    );
    expect(texts.length).toBeGreaterThan(20);
    for (const text of texts) {
      const role = { name: text, description: text, contains: [user(text)] };
      const { role_id } = dataOf(await ask('POST', '/role', { body: role })) as { role_id: number };
      expect(dataOf(await ask('GET', `/role/${role_id}`))).toEqual(role);
      const query = `pageNum=0&pageSize=1&containsDesc=true&RoleName=${encodeURIComponent(text)}`;
      expect(dataOf(await ask('GET', `/roles?${query}`))).toMatchObject({
        list: [{ id: role_id, name: text, description: text }],
      });
      await ask('DELETE', `/role/${role_id}`);
    }
  });
});

describe('is refused with its code and its field:', () => {
  const path = '/role/user/visibility';
  const alice = { ...SALES, contains: [user('alice')] };
  const bob = { ...SALES, contains: [user('bob')] };

  test.each([
    ['a taken name', 'POST', '/role', { ...SALES, name: 'sALES' }, 409, 'name-taken', 'name'],
    ['a taken name', 'PUT', '/role/2', { ...SALES, name: 'ADMIN' }, 409, 'name-taken', 'name'],
    ['a missing role', 'PUT', '/role/3', SALES, 404, 'no-such-role', 'roleId'],
    ['a missing role', 'GET', '/role/3', undefined, 404, 'no-such-role', 'roleId'],
    ['a missing role', 'DELETE', '/role/3', undefined, 404, 'no-such-role', 'roleId'],
    ['a missing role', 'POST', `${path}/3`, bob, 404, 'no-such-role', 'roleId'],
    ['a missing role', 'DELETE', `${path}/3`, bob, 404, 'no-such-role', 'roleId'],
    ['the built-in role', 'DELETE', '/role/1', undefined, 409, 'built-in-role', 'roleId'],
    ['a member', 'POST', `${path}/2`, alice, 409, 'already-member', 'contains[0].name'],
    ['no member', 'DELETE', `${path}/2`, bob, 404, 'not-a-member', 'contains[0].name'],
    ['another name', 'POST', `${path}/2`, { ...bob, name: 'x' }, 400, 'bad-request', 'name'],
    ['another name', 'DELETE', `${path}/2`, { ...bob, name: 'x' }, 400, 'bad-request', 'name'],
    ['no id', 'GET', '/role/x', undefined, 400, 'bad-request', 'roleId'],
    ['no id', 'PUT', '/role/0', SALES, 400, 'bad-request', 'roleId'],
    ['no id', 'DELETE', '/role/-1', undefined, 400, 'bad-request', 'roleId'],
    ['no id', 'POST', `${path}/01`, bob, 400, 'bad-request', 'roleId'],
    ['no id', 'DELETE', `${path}/1.5`, bob, 400, 'bad-request', 'roleId'],
    [
      'two users',
      'POST',
      `${path}/2`,
      { ...bob, contains: [user('a'), user('b')] },
      400,
      'bad-request',
      'contains',
    ],
    ['no query', 'GET', '/roles', undefined, 400, 'bad-request', 'pageNum'],
  ])('%s in %s %s', async (_what, method, target, body, status, code, field) => {
    const { ask, invalidated } = await withSales();
    const failure = failureOf(await ask(method, target, { ...(body && { body }) }));
    expect(failure.startsWith(`${status} [${code}] ${field}: `)).toBe(true);
    expect(invalidated).toEqual([]);
    expect(dataOf(await ask('GET', '/role/2'))).toEqual(SALES);
  });

  const PAGE = 'pageNum=0&pageSize=9&containsDesc=true';
  test.each([
    ...['roleName', 'rolename', 'ROLENAME', 'Role_Name', 'role-name', 'RolName', 'RoleNmae'].map(
      (given) => ['/roles', `${PAGE}&${given}=x`, given, 'RoleName'],
    ),
    ['/roles', `${PAGE}&RoleName=x&rolename=y`, 'rolename', 'RoleName'],
    ['/roles', `${PAGE}&role%4eame=x`, 'roleName', 'RoleName'],
    ['/roles', 'pagenum=0&pageSize=9&containsDesc=true', 'pagenum', 'pageNum'],
    ['/roles', 'pageNum=0&pageSizes=9&containsDesc=true', 'pageSizes', 'pageSize'],
    ['/dataset', 'Project=p&datasetName=d', 'Project', 'project'],
    ['/dataset', 'project=p&dataset_name=d', 'dataset_name', 'datasetName'],
  ])('a parameter that is misspelt: GET %s?%s', async (path, query, given, meant) => {
    const { ask } = await withSales();
    expect(failureOf(await ask('GET', `${path}?${query}`))).toBe(
      `400 [bad-request] ${given}: this parameter is spelt ${meant}.`,
    );
  });

  test('no parameter that is like none of them', async () => {
    const { ask } = await withSales();
    for (const other of ['_=1', 'name=x', 'orderBy=name', '=', '']) {
      expect((await ask('GET', `/roles?${PAGE}&${other}`)).status).toBe(200);
    }
  });

  test('a body with several mistakes, all in one message', async () => {
    const { ask } = createTestApi();
    const body = { name: ' ', contains: [user('a'), 7, { type: 'group', name: '' }] };
    expect(failureOf(await ask('POST', '/role', { body }))).toBe(
      '400 [bad-request] name: must not begin or end with white space; description: is missing; contains[1]: must be an object with type and name; contains[2].type: must be "user"; contains[2].name: must not be empty.',
    );
  });

  test('a body with very many mistakes, of which some are told', async () => {
    const { ask } = createTestApi();
    const body = { ...SALES, contains: Array(1_000).fill(0) };
    const failure = failureOf(await ask('POST', '/role', { body }));
    expect(failure).toMatch(/contains\[19\]: .*; and more\.$/);
    expect(failure.length).toBeLessThan(2_000);
  });

  test.each([
    ['null', 'the body: must be a JSON object.'],
    ['[]', 'the body: must be a JSON object.'],
    [
      '{"name":',
      'The body cannot be read as JSON: line 1, column 9: expected a value, but the text ends.',
    ],
    [
      Buffer.from([0x22, 0xff]),
      'The body cannot be read as JSON: line 1, column 2: the bytes are not UTF-8.',
    ],
    [
      `${'['.repeat(33)}${']'.repeat(33)}`,
      'The body cannot be read as JSON: line 1, column 33: arrays and objects are nested more than 32 deep.',
    ],
  ])('a body that is no role (%j)', async (body, text) => {
    const { ask } = createTestApi();
    expect(failureOf(await ask('POST', '/role', { body }))).toBe(`400 [bad-request] ${text}`);
  });

  test.each([
    ['POST', '/role', 'name, description and contains'],
    ['PUT', '/role/2', 'name, description and contains'],
    ['POST', '/role/user/visibility/2', 'name and contains'],
    ['DELETE', '/role/user/visibility/2', 'name and contains'],
  ])('no body at all in %s %s', async (method, target, needed) => {
    const { ask } = await withSales();
    const expected = `400 [bad-request] The request has no body; it must hold ${needed}.`;
    expect(failureOf(await ask(method, target))).toBe(expected);
    expect(failureOf(await ask(method, target, { body: '' }))).toBe(expected);
  });

  test('a body that is larger than its limit', async () => {
    const { ask } = createTestApi();
    const description = 'x'.repeat(LIMITS.body);
    const failure = failureOf(await ask('POST', '/role', { body: { ...SALES, description } }));
    expect(failure).toMatch(/^413 \[too-big\] .*\(limits\.body\)/);
  });
});

test('the built-in role can be changed like every other', async () => {
  const { ask } = createTestApi();
  expect(dataOf(await ask('PUT', '/role/1', { body: SALES }))).toEqual({ role_id: 1 });
  expect(dataOf(await ask('GET', '/role/1'))).toEqual(SALES);
});

test('a byte order mark before a body is let through', async () => {
  const { ask } = createTestApi();
  const body = `\ufeff${JSON.stringify(SALES)}`;
  expect(dataOf(await ask('POST', '/role', { body }))).toEqual({ role_id: 2 });
});
