import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { INJECTION_STRINGS } from '../support/injection-strings.ts';
import { closeDrivers, DRIVERS, startDriver } from '../support/storage-drivers.ts';
import type { TestGateway } from '../support/test-gateway.ts';
import { apiOf, dataOf, documentOf, failureOf, messageOf, users, type Api } from './api-client.ts';

afterAll(closeDrivers);

/** What a name of a role or a user may be, beside its length. */
const mayBeName = (text: string) =>
  text === text.trim() && !/[\p{Cc}\p{Cs}\u2028\u2029]/u.test(text);

const ALLOWED = INJECTION_STRINGS.filter(mayBeName);

/** One after the other would take long; all at once would be another test. */
async function inGroups(
  texts: readonly string[],
  one: (text: string, index: number) => Promise<void>,
): Promise<void> {
  for (let from = 0; from < texts.length; from += 10) {
    const group = texts.slice(from, from + 10);
    await Promise.all(group.map((text, index) => one(text, from + index)));
  }
}

test('there are at least fifty texts, and fifty may be names', () => {
  expect(new Set(INJECTION_STRINGS).size).toBe(INJECTION_STRINGS.length);
  expect(ALLOWED.length).toBeGreaterThanOrEqual(50);
  expect(INJECTION_STRINGS.every((text) => text.isWellFormed())).toBe(true);
});

describe.each(DRIVERS)('over %s, text that looks like more', (driver) => {
  let gateway: TestGateway;
  let api: Api;
  const page = { pageNum: '0', pageSize: '1000', containsDesc: 'true' };

  beforeAll(async () => {
    gateway = await startDriver(driver);
    api = apiOf(gateway.url);
  });
  afterAll(() => gateway?.close());

  test('is data as the name of a role, or is refused', async () => {
    await inGroups(INJECTION_STRINGS, async (text) => {
      const role = { name: text, description: '', contains: [] };
      const created = await api.create(role);
      if (!mayBeName(text)) {
        expect([text, failureOf(created)]).toEqual([text, '400 bad-request']);
        expect(messageOf(created)).toMatch(/^name: /);
        return;
      }
      // Of two spellings of one name only the first is taken.
      if (created.status === 409) return;
      const { role_id: id } = dataOf(created) as { role_id: number };
      expect(dataOf(await api.read(id))).toEqual(role);
      expect(dataOf(await api.add(id, text, 'a'))).toBe('success');
      const listed = dataOf(await api.list({ ...page, RoleName: text })) as { list: object[] };
      expect(listed.list).toContainEqual({ id, name: text, description: '' });
    });
    const { list } = dataOf(await api.list(page)) as { list: { name: string }[] };
    const names = new Set(list.map(({ name }) => name));
    expect(names.size).toBeGreaterThan(50);
    expect([...names].filter((name) => !ALLOWED.includes(name))).toEqual(['Admin']);
  });

  test('is data as the description of a role', async () => {
    await inGroups(INJECTION_STRINGS, async (description, index) => {
      const role = { name: `described ${index}`, description, contains: [] };
      const id = await api.created(role);
      expect(dataOf(await api.read(id))).toEqual(role);
      const listed = await api.list({ ...page, RoleName: role.name });
      expect((dataOf(listed) as { list: object[] }).list).toContainEqual({
        id,
        name: role.name,
        description,
      });
    });
  });

  test('is data as the name of a user, or is refused', async () => {
    const name = 'members';
    const id = await api.created({ name });
    await inGroups(INJECTION_STRINGS, async (text, index) => {
      const role = { name: `with ${index}`, description: '', contains: users('first', text) };
      const created = await api.create(role);
      const added = await api.add(id, name, text);
      if (!mayBeName(text)) {
        for (const answer of [created, added]) {
          expect([text, failureOf(answer)]).toEqual([text, '400 bad-request']);
          expect(messageOf(answer)).toMatch(/^contains\[\d\]\.name: /);
        }
        return;
      }
      const { role_id } = dataOf(created) as { role_id: number };
      expect(dataOf(await api.read(role_id))).toEqual(role);
      if (added.status === 409) return;
      expect(dataOf(added)).toBe('success');
      const { contains } = dataOf(await api.read(id)) as { contains: object[] };
      expect(contains).toContainEqual({ type: 'user', name: text });
      expect(dataOf(await api.drop(id, name, text))).toBe('success');
    });
    expect(dataOf(await api.read(id))).toMatchObject({ contains: [] });
  });

  test('is data in the filter RoleName, and matches nothing but itself', async () => {
    const names = ['plain', 'plainer'];
    for (const name of names) await api.created({ name });
    await inGroups(INJECTION_STRINGS, async (text) => {
      const { list, total } = dataOf(await api.list({ ...page, RoleName: `plain${text}` })) as {
        list: { name: string }[];
        total: number;
      };
      expect([text, list, total]).toEqual([text, [], 0]);
    });
  });

  test('is data as the project, name and type of a dataset, in documents, queries and paths', async () => {
    await inGroups(INJECTION_STRINGS, async (text) => {
      const document = documentOf(text, text, text);
      const imported = dataOf(await api.import(document)) as { dataset_id: number };
      const exported = await api.export(text, text, text);
      expect([text, exported.status, exported.text]).toEqual([text, 200, document]);
      expect(dataOf(await api.replace(`${document} `))).toEqual(imported);
      expect((await api.export(text, text, text)).text).toBe(`${document} `);
      // A path has no segment of dots alone: clients resolve it (RFC 3986 §5.2.4).
      if (text === '.' || text === '..') return;
      const listed = await api.datasets(text);
      expect(JSON.parse(listed.text)).toEqual({
        project: text,
        semantic_datasets: [
          { ...imported, dataset_name: text, type: text, last_modified: expect.any(Number) },
        ],
      });
    });
  });

  test('finds nothing of others in a query of datasets', async () => {
    await api.import(documentOf('secret', 'secret'));
    await inGroups(INJECTION_STRINGS, async (text) => {
      const project = `secret${text}`;
      const answers = [
        await api.export(project, 'secret'),
        await api.export('secret', project),
        await api.export('secret', 'secret', `MDX${text}`),
      ];
      const failures = answers.map(failureOf);
      expect([text, ...failures]).toEqual([text, ...failures.map(() => '404 no-such-dataset')]);
      const listed = await api.datasets(project);
      expect(JSON.parse(listed.text)).toEqual({ project, semantic_datasets: [] });
    });
  });
});
