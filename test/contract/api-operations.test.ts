import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { gzipSync } from 'node:zlib';
import { API_OPERATIONS } from '../../src/api/api.ts';
import { send } from '../support/http-client.ts';
import { closeDrivers, DRIVERS, startDriver } from '../support/storage-drivers.ts';
import { basic, type TestGateway } from '../support/test-gateway.ts';
import {
  apiOf,
  ask,
  dataOf,
  documentOf,
  failureOf,
  messageOf,
  outcomeOf,
  users,
  type Api,
} from './api-client.ts';

afterAll(closeDrivers);

const ADMIN = {
  name: 'Admin',
  description: 'This role is an admin role with all semantic information access to all datasets',
  contains: users('ADMIN'),
};

/** Paths of all operations, with an id of a role that is never there. */
const TARGETS = API_OPERATIONS.map(({ name, method, path }) => ({
  name,
  method,
  path: path.replace(':roleId', '999999').replace(':project', 'p'),
}));

describe.each(DRIVERS)('the API over %s', (driver) => {
  let gateway: TestGateway;
  let api: Api;
  /** Something that no other test has in its names. */
  let own: string;
  let counter = 0;
  const base = () => gateway.url;

  beforeAll(async () => {
    gateway = await startDriver(driver, { limits: { body: '64KiB', dataset: '128KiB' } });
    api = apiOf(gateway.url);
  });
  afterAll(() => gateway?.close());
  beforeEach(() => {
    counter += 1;
    own = `own${counter}.`;
  });

  test('of an empty storage has the built-in role with the first administrators', async () => {
    const fresh = await startDriver(driver, { auth: { admins: ['ADMIN', 'bob'] } });
    try {
      const api = apiOf(fresh.url);
      expect(dataOf(await api.read(1))).toEqual({ ...ADMIN, contains: users('ADMIN', 'bob') });
      expect(await api.created({ name: 'first' })).toBe(2);
      expect(await api.created({ name: 'second' })).toBe(3);
      expect(dataOf(await api.import(documentOf('p', 'first')))).toEqual({ dataset_id: 1 });
      expect(dataOf(await api.import(documentOf('p', 'second')))).toEqual({ dataset_id: 2 });
      const page = { pageNum: '0', pageSize: '10', containsDesc: 'true' };
      expect(dataOf(await api.list(page))).toEqual({
        pageNum: 0,
        pageSize: 10,
        list: [
          { id: 3, name: 'second', description: '' },
          { id: 2, name: 'first', description: '' },
          { id: 1, name: 'Admin', description: ADMIN.description },
        ],
        total: 3,
      });
    } finally {
      await fresh.close();
    }
  });

  describe('roles', () => {
    test('are read as they were created, without their id', async () => {
      const role = {
        name: `${own} Sales team`,
        description: 'All of it',
        contains: users('b', 'a'),
      };
      const id = await api.created(role);
      expect(dataOf(await api.read(id))).toEqual(role);
    });

    test('hold each member once, under the first spelling', async () => {
      const contains = users('ann', 'Bob', 'ANN', 'bob', 'Straße', 'STRASSE');
      const id = await api.created({ name: own, contains });
      expect(dataOf(await api.read(id))).toMatchObject({
        contains: users('ann', 'Bob', 'Straße'),
      });
    });

    test('are replaced whole by an update, and keep their id', async () => {
      const id = await api.created({ name: own, description: 'old', contains: users('a', 'b') });
      const role = { name: `${own}new`, description: '', contains: [] };
      expect(dataOf(await api.update(id, role))).toEqual({ role_id: id });
      expect(dataOf(await api.read(id))).toEqual(role);
      expect(await api.created({ name: own })).toBeGreaterThan(id);
    });

    test('of one name are there once, whatever its case', async () => {
      const id = await api.created({ name: `${own}É` });
      const taken = { name: `${own}é`.toUpperCase(), description: '', contains: [] };
      expect(failureOf(await api.create(taken))).toBe('409 name-taken');
      const other = await api.created({ name: `${own}other` });
      expect(other).toBe(id + 1);
      expect(failureOf(await api.update(other, taken))).toBe('409 name-taken');
      expect(dataOf(await api.update(id, taken))).toEqual({ role_id: id });
    });

    test('that were deleted are gone, and their ids with them', async () => {
      const id = await api.created({ name: own });
      expect(dataOf(await api.remove(id))).toBe('success');
      expect(failureOf(await api.read(id))).toBe('404 no-such-role');
      expect(failureOf(await api.remove(id))).toBe('404 no-such-role');
      expect(await api.created({ name: own })).toBe(id + 1);
    });

    test('that are not there are 404 for every operation', async () => {
      const role = { name: own, description: '', contains: [] };
      const answers = [
        await api.read(999_999),
        await api.update(999_999, role),
        await api.remove(999_999),
        await api.add(999_999, own, 'u'),
        await api.drop(999_999, own, 'u'),
      ];
      expect(new Set(answers.map(failureOf))).toEqual(new Set(['404 no-such-role']));
    });

    test('take and lose one user at a time, whatever the case', async () => {
      const id = await api.created({ name: own, contains: users('a') });
      expect(dataOf(await api.add(id, own, 'Bob'))).toBe('success');
      expect(failureOf(await api.add(id, own, 'BOB'))).toBe('409 already-member');
      expect(dataOf(await api.read(id))).toMatchObject({ contains: users('a', 'Bob') });
      expect(dataOf(await api.drop(id, own.toUpperCase(), 'bOb'))).toBe('success');
      expect(failureOf(await api.drop(id, own, 'Bob'))).toBe('404 not-a-member');
      expect(dataOf(await api.read(id))).toMatchObject({ contains: users('a') });
    });

    test('change members only under their own name', async () => {
      const id = await api.created({ name: own, contains: users('a') });
      for (const answer of [await api.add(id, 'Admin', 'b'), await api.drop(id, 'Admin', 'a')]) {
        expect(failureOf(answer)).toBe('400 bad-request');
        expect(messageOf(answer)).toMatch(/^name: /);
      }
      expect(dataOf(await api.read(id))).toMatchObject({ contains: users('a') });
    });

    test('that are built in can be changed and not be deleted', async () => {
      expect(failureOf(await api.remove(1))).toBe('409 built-in-role');
      const changed = { ...ADMIN, contains: users('ADMIN', 'carol') };
      expect(dataOf(await api.update(1, changed))).toEqual({ role_id: 1 });
      expect(dataOf(await api.read(1))).toEqual(changed);
      expect(dataOf(await api.drop(1, 'Admin', 'carol'))).toBe('success');
    });

    test('with an id that is no positive integer are 400', async () => {
      const ids = [
        '0',
        '01',
        '-1',
        '+1',
        '1.0',
        '1e1',
        '0x1',
        'a',
        '%31%00',
        '１',
        '9007199254740992',
      ];
      for (const id of ids.map(encodeURIComponent).concat('%20', '1%20', '%2e%2e')) {
        const answer = await ask(base(), `/role/${id}`);
        expect([id, failureOf(answer)]).toEqual([id, '400 bad-request']);
        expect(messageOf(answer)).toMatch(/^roleId: /);
      }
      expect(dataOf(await ask(base(), '/role/%31'))).toMatchObject({ name: 'Admin' });
      expect(failureOf(await ask(base(), '/role/9007199254740991'))).toBe('404 no-such-role');
    });
  });

  describe('the list of roles', () => {
    const page = { pageNum: '0', pageSize: '100', containsDesc: 'true' };

    test('has pages, newest first, and the number of all', async () => {
      for (const letter of ['a', 'b', 'c', 'd', 'e']) {
        await api.created({ name: `${own}${letter}`, description: `of ${letter}` });
      }
      const asked = { pageSize: '2', containsDesc: 'true', RoleName: own };
      const pages = await Promise.all(
        ['0', '1', '2', '3', '2147483647'].map((pageNum) => api.list({ ...asked, pageNum })),
      );
      expect(
        pages.map((answer) => {
          const { list, ...rest } = dataOf(answer) as { list: { name: string }[] };
          return [rest, list.map(({ name }) => name.replace(own, ''))];
        }),
      ).toEqual([
        [{ pageNum: 0, pageSize: 2, total: 5 }, ['e', 'd']],
        [{ pageNum: 1, pageSize: 2, total: 5 }, ['c', 'b']],
        [{ pageNum: 2, pageSize: 2, total: 5 }, ['a']],
        [{ pageNum: 3, pageSize: 2, total: 5 }, []],
        [{ pageNum: 2_147_483_647, pageSize: 2, total: 5 }, []],
      ]);
    });

    test('leaves descriptions out where they are not asked for', async () => {
      const id = await api.created({ name: own, description: 'long' });
      for (const [containsDesc, role] of [
        ['true', { id, name: own, description: 'long' }],
        ['TRUE', { id, name: own, description: 'long' }],
        ['false', { id, name: own }],
        ['False', { id, name: own }],
      ] as const) {
        const data = dataOf(await api.list({ ...page, containsDesc, RoleName: own }));
        expect(data).toMatchObject({ list: [role], total: 1 });
        expect((data as { list: object[] }).list[0]).toEqual(role);
      }
    });

    test('is filtered by a part of the name, which is no pattern', async () => {
      const names = [`${own}50% off`, `${own}5_0`, `${own}[5-9]`, `${own}Größe`];
      for (const name of names) await api.created({ name });
      const found = async (part: string) => {
        const data = dataOf(await api.list({ ...page, RoleName: part })) as {
          list: { name: string }[];
        };
        return data.list.map(({ name }) => name);
      };
      expect(await found(`${own}5%`)).toEqual([]);
      expect(await found(`${own}50%`)).toEqual([names[0]]);
      expect(await found(`${own}5_0`)).toEqual([names[1]]);
      expect(await found(`${own}[5-9]`)).toEqual([names[2]]);
      expect(await found(`${own}GRÖSSE`)).toEqual([names[3]]);
      expect(await found(own.toUpperCase())).toEqual(names.toReversed());
    });

    test('of all roles is what an empty RoleName and none ask for', async () => {
      const [all, empty] = [await api.list(page), await api.list({ ...page, RoleName: '' })];
      expect((dataOf(all) as { total: number }).total).toBeGreaterThan(0);
      expect(empty.text).toBe(all.text);
    });

    test.each([
      ['pageNum', ''],
      ['pageNum', '-1'],
      ['pageNum', '1.5'],
      ['pageNum', '2147483648'],
      ['pageNum', 'x'],
      ['pageSize', '0'],
      ['pageSize', '2147483648'],
      ['pageSize', '1e3'],
      ['containsDesc', ''],
      ['containsDesc', 'yes'],
      ['containsDesc', '1'],
    ])('refuses %s=%s', async (name, value) => {
      const answer = await api.list({ ...page, [name]: value });
      expect(failureOf(answer)).toBe('400 bad-request');
      expect(messageOf(answer)).toMatch(new RegExp(`^${name}: `));
    });

    test('needs its three parameters once each, and RoleName at most once', async () => {
      const nothing = await ask(base(), '/roles');
      expect(failureOf(nothing)).toBe('400 bad-request');
      for (const name of Object.keys(page)) {
        expect(messageOf(nothing)).toContain(`${name}: `);
        const twice = `${new URLSearchParams(page)}&${name}=1`;
        expect(failureOf(await ask(base(), `/roles?${twice}`))).toBe('400 bad-request');
      }
      const misspelt = await ask(base(), `/roles?${new URLSearchParams(page)}&roleName=a`);
      expect(failureOf(misspelt)).toBe('400 bad-request');
      expect(messageOf(misspelt)).toBe('roleName: this parameter is spelt RoleName.');
      const twice = `/roles?${new URLSearchParams(page)}&RoleName=a&RoleName=a`;
      expect(failureOf(await ask(base(), twice))).toBe('400 bad-request');
    });
  });

  describe('the body of a role', () => {
    const right = { name: 'a', description: '', contains: [] };

    test.each<[string, unknown, string[]]>([
      ['without fields', {}, ['name', 'description', 'contains']],
      ['that is a list', [], ['']],
      ['that is null', null, ['']],
      [
        'of other types',
        { name: 1, description: null, contains: {} },
        ['name', 'description', 'contains'],
      ],
      ['with an empty name', { ...right, name: '' }, ['name']],
      ['with blanks around the name', { ...right, name: ' a' }, ['name']],
      ['with a line break in the name', { ...right, name: 'a\nb' }, ['name']],
      ['with a line separator in the name', { ...right, name: 'a\u2028b' }, ['name']],
      ['with half a character', { ...right, name: '\ud800' }, ['name']],
      ['with a long name', { ...right, name: '😀'.repeat(129) }, ['name']],
      ['with a long description', { ...right, description: '😀'.repeat(2_001) }, ['description']],
      [
        'with half a character to describe it',
        { ...right, description: '\udc00' },
        ['description'],
      ],
      [
        'with members of all wrong kinds',
        {
          ...right,
          contains: [
            { type: 'user', name: 'a' },
            { type: 'group', name: 'a' },
            { type: 'user', name: '' },
            { type: 'user' },
            { name: 'a' },
            'a',
            { type: 'user', name: 'n'.repeat(256) },
          ],
        },
        [
          'contains[1].type',
          'contains[2].name',
          'contains[3].name',
          'contains[4].type',
          'contains[5]',
          'contains[6].name',
        ],
      ],
    ])('%s is 400, with each field', async (_, json, fields) => {
      for (const answer of [await api.create(json), await api.update(1, json)]) {
        expect(failureOf(answer)).toBe('400 bad-request');
        for (const field of fields) expect(messageOf(answer)).toContain(field);
        expect(messageOf(answer)).not.toContain('contains[0]');
      }
      expect(dataOf(await api.read(1))).toEqual(ADMIN);
    });

    test('may be as long as is allowed, to the last character', async () => {
      const role = {
        name: `${own}${'😀'.repeat(128 - own.length)}`,
        description: '🐘\n'.repeat(1_000),
        contains: users('Ü'.repeat(255), 'two words', 'CORP\\ann'),
      };
      expect(dataOf(await api.read(await api.created(role)))).toEqual(role);
    });

    test('may hold fields that nobody knows', async () => {
      const role = { ...right, name: own, id: 77, extra: { deep: [1] } };
      const { role_id } = dataOf(await api.create(role)) as { role_id: number };
      expect(dataOf(await api.read(role_id))).toEqual({ ...right, name: own });
    });

    test('for a user holds one user, and may do without a description', async () => {
      const id = await api.created({ name: own });
      const path = `/role/user/visibility/${id}`;
      for (const contains of [
        [],
        users('a', 'b'),
        undefined,
        'a',
        [{ type: 'group', name: 'a' }],
      ]) {
        for (const method of ['POST', 'DELETE']) {
          const answer = await ask(base(), path, { method, json: { name: own, contains } });
          expect(failureOf(answer)).toBe('400 bad-request');
          expect(messageOf(answer)).toMatch(/^contains/);
        }
      }
      const json = { name: own, contains: users('a') };
      expect(dataOf(await ask(base(), path, { method: 'POST', json }))).toBe('success');
      const wrong = { ...json, description: 7 };
      expect(failureOf(await ask(base(), path, { method: 'POST', json: wrong }))).toBe(
        '400 bad-request',
      );
      expect(dataOf(await ask(base(), path, { method: 'DELETE', json }))).toBe('success');
    });

    test.each<[string, string | Buffer]>([
      ['nothing', ''],
      ['no JSON', '{name:"a"}'],
      ['JSON and more', '{} {}'],
      ['half of JSON', '{"name":"a"'],
      ['no UTF-8', Buffer.from('{"name":"\xff"}', 'latin1')],
      ['UTF-16', Buffer.from('{"name":"a"}', 'utf16le')],
      ['a very deep thing', `${'['.repeat(20_000)}${']'.repeat(20_000)}`],
    ])('that is %s is 400', async (_, body) => {
      expect(failureOf(await ask(base(), '/role', { method: 'POST', body }))).toBe(
        '400 bad-request',
      );
    });

    test('may begin with a byte order mark, and come compressed', async () => {
      const json = (name: string) => `\uFEFF${JSON.stringify({ ...right, name })}`;
      const plain = await ask(base(), '/role', { method: 'POST', body: json(`${own}1`) });
      expect(dataOf(plain)).toEqual({ role_id: expect.any(Number) });
      const coded = await ask(base(), '/role', {
        method: 'POST',
        body: gzipSync(json(`${own}2`)),
        headers: { 'content-encoding': 'gzip' },
      });
      expect(dataOf(coded)).toEqual({ role_id: expect.any(Number) });
    });

    test('is 413 beyond the limit', async () => {
      const answer = await api.create({ ...right, extra: 'x'.repeat(70_000) });
      expect(failureOf(answer)).toBe('413 too-big');
      expect(messageOf(answer)).toContain('limits.body');
    });
  });

  describe('the Content-Type', () => {
    test.each([
      'application/json',
      'application/json;charset=utf8',
      'application/json; charset=utf-8',
      'application/json;charset=UTF8',
      'Application/JSON; Charset="UTF-8"',
      'application/json ; charset="utf8"',
    ])('may be %s, also on DELETE', async (type) => {
      const headers = { 'content-type': type };
      const body = JSON.stringify({ name: own, description: '', contains: users('a') });
      const created = await ask(base(), '/role', { method: 'POST', body, headers });
      const { role_id } = dataOf(created) as { role_id: number };
      const path = `/role/user/visibility/${role_id}`;
      expect(dataOf(await ask(base(), path, { method: 'DELETE', body, headers }))).toBe('success');
      const replaced = await ask(base(), `/role/${role_id}`, { method: 'PUT', body, headers });
      expect(dataOf(replaced)).toEqual({ role_id });
      const document = documentOf(own, 'd');
      const imported = { method: 'POST', body: document, headers };
      expect(dataOf(await ask(base(), '/dataset?createType=import', imported))).toEqual({
        dataset_id: expect.any(Number),
      });
    });

    test.each([
      'text/plain',
      'application/x-www-form-urlencoded',
      'multipart/form-data; boundary=a',
      'application/json; charset=latin1',
      'application/json; charset=utf-16',
      'application/jsonp',
      'json',
    ])('%s is 415', async (type) => {
      const headers = { 'content-type': type };
      const body = JSON.stringify({ name: own, description: '', contains: [] });
      for (const [method, path] of [
        ['POST', '/role'],
        ['PUT', '/role/1'],
        ['DELETE', '/role/user/visibility/1'],
        ['POST', '/dataset?createType=import'],
        ['PUT', '/dataset'],
      ] as const) {
        const answer = await ask(base(), path, { method, body, headers });
        expect([method, path, failureOf(answer)]).toEqual([method, path, '415 media-type']);
      }
    });

    test('is not asked of a request without a body', async () => {
      const id = await api.created({ name: own });
      const read = await ask(base(), `/role/${id}`, { headers: { 'content-type': 'a/b' } });
      expect(dataOf(read)).toMatchObject({ name: own });
      expect(dataOf(await ask(base(), `/role/${id}`, { method: 'DELETE' }))).toBe('success');
    });
  });

  describe('datasets', () => {
    test('are exported as they were imported, and listed', async () => {
      const document = documentOf(own, 'first', 'MDX');
      const before = Math.floor(Date.now() / 1_000);
      const { dataset_id } = dataOf(await api.import(document)) as { dataset_id: number };
      const exported = await api.export(own, 'first');
      expect([exported.status, exported.text]).toEqual([200, document]);
      expect(exported.headers['content-type']).toMatch(/^application\/json/);
      const listed = await api.datasets(own);
      const list = JSON.parse(listed.text) as { semantic_datasets: { last_modified: number }[] };
      expect([listed.status, list]).toEqual([
        200,
        {
          project: own,
          semantic_datasets: [
            { dataset_id, dataset_name: 'first', type: 'MDX', last_modified: expect.any(Number) },
          ],
        },
      ]);
      const [{ last_modified } = { last_modified: 0 }] = list.semantic_datasets;
      expect(last_modified).toBeGreaterThanOrEqual(before);
      expect(last_modified).toBeLessThanOrEqual(Date.now() / 1_000);
      expect(Number.isInteger(last_modified)).toBe(true);
    });

    test('are listed by project, in the order of their import', async () => {
      for (const name of ['z', 'a', 'm']) await api.import(documentOf(own, name));
      await api.import(documentOf(`${own}other`, 'x'));
      const { semantic_datasets } = JSON.parse((await api.datasets(own)).text) as {
        semantic_datasets: { dataset_name: string }[];
      };
      expect(semantic_datasets.map(({ dataset_name }) => dataset_name)).toEqual(['z', 'a', 'm']);
      const none = await api.datasets(`${own}none`);
      expect([none.status, JSON.parse(none.text)]).toEqual([
        200,
        { project: `${own}none`, semantic_datasets: [] },
      ]);
    });

    test('are never overwritten by an import', async () => {
      const document = documentOf(own, 'a');
      await api.import(document);
      const second = await api.import(documentOf(own, 'a', 'other'));
      expect(failureOf(second)).toBe('409 dataset-exists');
      expect((await api.export(own, 'a')).text).toBe(document);
    });

    test('are replaced by an update, and keep their id', async () => {
      const { dataset_id } = dataOf(await api.import(documentOf(own, 'a'))) as {
        dataset_id: number;
      };
      const document = documentOf(own, 'a', 'Tabular');
      expect(dataOf(await api.replace(document))).toEqual({ dataset_id });
      expect((await api.export(own, 'a')).text).toBe(document);
      const next = dataOf(await api.import(documentOf(own, 'b')));
      expect(next).toEqual({ dataset_id: dataset_id + 1 });
    });

    test('without a type count as MDX, and come back as they were', async () => {
      const document = JSON.stringify({ dataset_name: 'a', project: own });
      const { dataset_id } = dataOf(await api.import(document)) as { dataset_id: number };
      expect((await api.export(own, 'a', 'mdx')).text).toBe(document);
      const { text } = await ask(base(), `/datasets/MDX/${own}`);
      expect(JSON.parse(text)).toMatchObject({
        semantic_datasets: [{ dataset_id, dataset_name: 'a', type: 'MDX' }],
      });
      await api.replace(documentOf(own, 'a', 'Tabular'));
      await api.replace(document);
      expect((await api.export(own, 'a', 'MDX')).text).toBe(document);
    });

    test('that are not there are 404', async () => {
      expect(failureOf(await api.replace(documentOf(own, 'a')))).toBe('404 no-such-dataset');
      expect(failureOf(await api.export(own, 'a'))).toBe('404 no-such-dataset');
    });

    test('are found by the exact project and name, whatever type is asked for', async () => {
      await api.import(documentOf(own, 'Größe', 'Mdx'));
      expect((await api.export(own, 'Größe', 'SQL')).status).toBe(200);
      for (const [project, name] of [
        [own.toUpperCase(), 'Größe'],
        [own, 'größe'],
        [own, 'Gro\u0308ße'],
        [own, 'Größe '],
      ] as const) {
        expect(failureOf(await api.export(project, name))).toBe('404 no-such-dataset');
      }
    });

    test.each<[string, string | Buffer, string]>([
      ['nothing', '', 'body'],
      ['no JSON', '{', 'JSON'],
      ['a list', '[]', 'object'],
      ['without identity', '{}', 'project: '],
      [
        'with another type of name',
        '{"project":"p","dataset_name":1,"type":"t"}',
        'dataset_name: ',
      ],
      ['with an empty project', '{"project":"","dataset_name":"n","type":"t"}', 'project: '],
      [
        'with a long type',
        `{"project":"p","dataset_name":"n","type":"${'t'.repeat(256)}"}`,
        'type: ',
      ],
      [
        'with half a character',
        '{"project":"p","dataset_name":"\\ud800","type":"t"}',
        'dataset_name: ',
      ],
      [
        'of two projects',
        '{"project":"p","dataset_name":"n","type":"t","project":"q"}',
        'project: ',
      ],
      ['no UTF-8', Buffer.from('{"project":"\xe9"}', 'latin1'), 'UTF-8'],
    ])('whose document is %s are 400', async (_, document, told) => {
      for (const answer of [await api.import(document), await api.replace(document)]) {
        expect(failureOf(answer)).toBe('400 bad-request');
        expect(messageOf(answer)).toContain(told);
      }
    });

    test('are 413 beyond their own limit, which is not that of roles', async () => {
      const long = (length: number) =>
        JSON.stringify({ project: own, dataset_name: 'a', type: 't', fill: 'x'.repeat(length) });
      expect(dataOf(await api.import(long(100_000)))).toEqual({ dataset_id: expect.any(Number) });
      const answer = await api.import(long(140_000));
      expect(failureOf(answer)).toBe('413 too-big');
      expect(messageOf(answer)).toContain('limits.dataset');
    });

    test('need their parameters, once each', async () => {
      const body = documentOf(own, 'a');
      for (const query of [
        '',
        '?createType=',
        '?createType=Import',
        '?createType=import&createType=import',
      ]) {
        const answer = await ask(base(), `/dataset${query}`, { method: 'POST', body });
        expect([query, failureOf(answer)]).toEqual([query, '400 bad-request']);
        expect(messageOf(answer)).toMatch(/^createType: /);
      }
      const misspelt = await ask(base(), '/dataset?projekt=p&datasetName=a');
      expect(failureOf(misspelt)).toBe('400 bad-request');
      expect(messageOf(misspelt)).toBe('projekt: this parameter is spelt project.');
      for (const [query, field] of [
        ['', 'project'],
        ['?datasetType=MDX&datasetName=a', 'project'],
        ['?project=p&datasetType=MDX', 'datasetName'],
        ['?project=&datasetType=MDX&datasetName=a', 'project'],
        ['?project=p&project=q&datasetType=MDX&datasetName=a', 'project'],
      ] as const) {
        const answer = await ask(base(), `/dataset${query}`);
        expect([query, failureOf(answer)]).toEqual([query, '400 bad-request']);
        expect(messageOf(answer)).toContain(`${field}: `);
      }
    });
  });

  describe('HTTP', () => {
    test('paths may end with a slash, and are spelt as documented', async () => {
      const id = await api.created({ name: own });
      expect(dataOf(await ask(base(), `/role/${id}/`))).toMatchObject({ name: own });
      expect((await ask(base(), `/datasets/MDX/${own}/`)).status).toBe(200);
      const added = await ask(base(), `/role/user/visibility/${id}/`, {
        method: 'POST',
        json: { name: own, contains: users('a') },
      });
      expect(dataOf(added)).toBe('success');
      const wrong = [
        '',
        '/',
        '/Role/1',
        '/role/1/1',
        '/datasets/mdx/p',
        '/datasets/MDX',
        '/role/user',
      ];
      for (const path of wrong.concat('/dataset/1', '/rolesx', '/role//1', '/__proto__')) {
        const answer = await ask(base(), path);
        // `user` is no id of a role.
        const expected = path === '/role/user' ? '400 bad-request' : '404 not-found';
        expect([path, failureOf(answer)]).toEqual([path, expected]);
      }
    });

    test('a path that is no UTF-8 is 400', async () => {
      expect(failureOf(await ask(base(), '/datasets/MDX/%ff'))).toBe('400 bad-request');
      expect(failureOf(await ask(base(), '/roles?RoleName=%ff'))).toBe('400 bad-request');
    });

    test('HEAD is GET without its body', async () => {
      const id = await api.created({ name: own });
      await api.import(documentOf(own, 'd'));
      for (const path of [
        `/role/${id}`,
        `/role/999999`,
        '/role/x',
        `/roles?pageNum=0&pageSize=5&containsDesc=true&RoleName=${own}`,
        `/dataset?project=${own}&datasetType=MDX&datasetName=d`,
        `/datasets/MDX/${own}`,
      ]) {
        const got = await ask(base(), path);
        const head = await ask(base(), path, { method: 'HEAD' });
        expect([path, head.status, head.text]).toEqual([path, got.status, '']);
        for (const name of ['content-type', 'content-length', 'cache-control'] as const) {
          expect([path, name, head.headers[name]]).toEqual([path, name, got.headers[name]]);
        }
        expect(Number(got.headers['content-length'])).toBe(got.body.length);
      }
    });

    test('OPTIONS and every other method name what is allowed', async () => {
      const allowed = Map.groupBy(TARGETS, ({ path }) => path);
      expect(allowed.size).toBe(6);
      for (const [path, targets] of allowed) {
        const methods = targets.map(({ method }) => method as string);
        const allow = new Set([
          ...methods,
          'OPTIONS',
          ...(methods.includes('GET') ? ['HEAD'] : []),
        ]);
        const options = await ask(base(), path, { method: 'OPTIONS' });
        expect([path, options.status, options.text]).toEqual([path, 204, '']);
        expect(new Set(options.headers.allow?.split(', '))).toEqual(allow);
        const all = ['GET', 'POST', 'PUT', 'DELETE', 'PATCH', 'PROPFIND'];
        for (const method of all.filter((method) => !allow.has(method))) {
          const answer = await ask(base(), path, { method });
          expect([path, method, failureOf(answer)]).toEqual([
            path,
            method,
            '405 method-not-allowed',
          ]);
          expect(new Set(answer.headers.allow?.split(', '))).toEqual(allow);
        }
      }
    });

    test('only administrators change anything; every user reads', async () => {
      const id = await api.created({ name: own });
      await api.import(documentOf(own, 'd'));
      const role = { name: own, description: '', contains: users('a') };
      for (const [method, path, json] of [
        ['POST', '/role', role],
        ['PUT', `/role/${id}`, role],
        ['DELETE', `/role/${id}`, undefined],
        ['POST', `/role/user/visibility/${id}`, role],
        ['DELETE', `/role/user/visibility/${id}`, role],
        ['POST', '/dataset?createType=import', JSON.parse(documentOf(own, 'e'))],
        ['PUT', '/dataset', JSON.parse(documentOf(own, 'd', 'other'))],
        ['POST', '/role', {}],
        ['PUT', '/role/x', role],
      ] as const) {
        const answer = await ask(base(), path, { method, json, user: 'alice' });
        expect([method, path, failureOf(answer)]).toEqual([method, path, '403 forbidden']);
      }
      const unchanged = await ask(base(), `/role/${id}`, { user: 'alice' });
      expect(dataOf(unchanged)).toEqual({ ...role, contains: [] });
      for (const path of [
        '/roles?pageNum=0&pageSize=1&containsDesc=false',
        `/dataset?project=${own}&datasetType=MDX&datasetName=d`,
        `/datasets/MDX/${own}`,
      ]) {
        expect([path, (await ask(base(), path, { user: 'bob' })).status]).toEqual([path, 200]);
      }
    });

    test.each([
      ['nobody', {}],
      ['another scheme', { authorization: 'Bearer abc' }],
      ['a wrong password', { authorization: `Basic ${btoa('ADMIN:wrong')}` }],
    ])('%s is 401 everywhere', async (who, headers: Record<string, string>) => {
      // More wrong passwords would be throttled.
      const targets = who === 'a wrong password' ? TARGETS.slice(0, 3) : TARGETS;
      for (const { method, path } of targets) {
        const answer = await send(base(), { method, path: `/api${path}`, headers });
        expect([path, failureOf(answer)]).toEqual([path, '401 unauthenticated']);
        expect(answer.headers['www-authenticate']).toMatch(/^Basic /);
      }
      const nowhere = await send(base(), { path: '/api/nothing', headers });
      expect(failureOf(nowhere)).toBe('401 unauthenticated');
    });

    test('a page of another site changes nothing, whoever is logged in', async () => {
      const role = JSON.stringify({ name: own, description: '', contains: [] });
      for (const forged of [
        { 'sec-fetch-site': 'cross-site' },
        { origin: 'http://evil.example' },
        { 'sec-purpose': 'prefetch' },
      ] as Record<string, string>[]) {
        const answer = await send(base(), {
          method: 'POST',
          path: '/api/role',
          headers: { authorization: basic('ADMIN'), 'content-type': 'application/json', ...forged },
          body: role,
        });
        expect(failureOf(answer)).toBe('403 forbidden');
      }
      const found = await api.list({
        pageNum: '0',
        pageSize: '1',
        containsDesc: 'false',
        RoleName: own,
      });
      expect(dataOf(found)).toMatchObject({ total: 0 });
    });
  });

  describe('many at one time', () => {
    test('50 creates of one name make one role, and 49 conflicts', async () => {
      const role = { name: own, description: '', contains: [] };
      const answers = await Promise.all(
        Array.from({ length: 50 }, (_, index) =>
          api.create({ ...role, name: index % 2 === 0 ? own : own.toUpperCase() }),
        ),
      );
      const outcomes = answers.map(outcomeOf);
      expect(outcomes.filter((outcome) => outcome === '409 name-taken')).toHaveLength(49);
      const data = outcomes.find((outcome) => typeof outcome === 'object');
      // Those that failed took no id.
      expect(await api.created({ name: `${own}next` })).toBe(
        (data as { role_id: number }).role_id + 1,
      );
    });

    test('100 adds of different users leave 100 members', async () => {
      const id = await api.created({ name: own });
      const names = Array.from({ length: 100 }, (_, index) => `user ${index}`);
      const answers = await Promise.all(names.map((name) => api.add(id, own, name)));
      expect(new Set(answers.map(outcomeOf))).toEqual(new Set(['success']));
      const { contains } = dataOf(await api.read(id)) as { contains: { name: string }[] };
      expect(contains.map(({ name }) => name).sort()).toEqual(names.sort());
    });

    test('50 imports of one dataset make one, and 49 conflicts', async () => {
      const documents = Array.from({ length: 50 }, (_, index) => documentOf(own, 'd', `t${index}`));
      const answers = await Promise.all(documents.map((document) => api.import(document)));
      const outcomes = answers.map(outcomeOf);
      expect(outcomes.filter((outcome) => outcome === '409 dataset-exists')).toHaveLength(49);
      const winner = outcomes.findIndex((outcome) => typeof outcome === 'object');
      expect((await api.export(own, 'd', `t${winner}`)).text).toBe(documents[winner]);
    });
  });
});
