import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { Answer } from '../support/http-client.ts';
import { INJECTION_STRINGS } from '../support/injection-strings.ts';
import { closeDrivers, DRIVERS, startDriver } from '../support/storage-drivers.ts';
import type { TestGateway } from '../support/test-gateway.ts';
import { apiOf, dataOf, documentOf, failureOf, messageOf, users, type Api } from './api-client.ts';
import { sampled } from '../support/sizes.ts';

afterAll(closeDrivers);

/** What a name of a role or a user may be, beside its length. */
const mayBeName = (text: string) =>
  text === text.trim() && !/[\p{Cc}\p{Cs}\u2028\u2029\u202a-\u202e\u2066-\u2069]/u.test(text);

const ALLOWED = INJECTION_STRINGS.filter(mayBeName);

/** What some server on the way may take for a step to another path, so that it is not passed on in one. */
const climbs = (project: string) =>
  project.split('/').some((segment) => segment === '.' || segment === '..');

function expectRefused(listed: Answer): void {
  expect(failureOf(listed)).toBe('400 bad-request');
  expect(messageOf(listed)).toMatch(/^project: /);
}

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

describe.each(sampled(DRIVERS))('over %s, text that looks like more', (driver) => {
  let gateway: TestGateway;
  let api: Api;
  const page = { pageNum: '0', pageSize: '1000', containsDesc: 'true' };

  beforeAll(async () => {
    gateway = await startDriver(driver);
    api = apiOf(gateway.url);
  });
  afterAll(() => gateway?.close());

  test('is data in every field of a role, where it may be a name', async () => {
    const name = 'members';
    const members = await api.created({ name });
    await inGroups(ALLOWED, async (text) => {
      const role = { name: text, description: text, contains: users('first', text) };
      const created = await api.create(role);
      const added = await api.add(members, name, text);
      // Of two spellings of one name only the first is taken.
      if (added.status !== 409) expect(dataOf(added)).toBe('success');
      if (created.status === 409) return;
      const { role_id: id } = dataOf(created) as { role_id: number };
      expect(dataOf(await api.read(id))).toEqual(role);
      const listed = dataOf(await api.list({ ...page, RoleName: text })) as { list: object[] };
      expect(listed.list).toContainEqual({ id, name: text, description: text });
    });
    const { contains } = dataOf(await api.read(members)) as { contains: { name: string }[] };
    expect(contains.length).toBeGreaterThanOrEqual(50);
    expect(contains.filter(({ name }) => !ALLOWED.includes(name))).toEqual([]);
    await inGroups(
      contains.map((member) => member.name),
      async (text) => expect(dataOf(await api.drop(members, name, text))).toBe('success'),
    );
    expect(dataOf(await api.read(members))).toMatchObject({ contains: [] });
  });

  test('is refused as a name where it may not be one, and is data as a description', async () => {
    const refused = INJECTION_STRINGS.filter((text) => !mayBeName(text));
    expect(refused.length).toBeGreaterThan(10);
    await inGroups(refused, async (text, index) => {
      const role = { name: `described ${index}`, description: text, contains: [] };
      for (const [field, answer] of [
        ['name', await api.create({ ...role, name: text })],
        ['contains[0].name', await api.create({ ...role, contains: users(text) })],
        ['contains[0].name', await api.add(1, 'Admin', text)],
        ['name', await api.add(1, text, 'a')],
      ] as const) {
        expect([text, failureOf(answer)]).toEqual([text, '400 bad-request']);
        expect(messageOf(answer).startsWith(`${field}: `)).toBe(true);
      }
      expect(dataOf(await api.read(await api.created(role)))).toEqual(role);
    });
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
      const listed = await api.datasets(text);
      if (driver === 'http' && climbs(text)) return expectRefused(listed);
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
      const exported = await api.export(project, project, `MDX${text}`);
      expect([text, failureOf(exported)]).toEqual([text, '404 no-such-dataset']);
      const listed = await api.datasets(project);
      if (driver === 'http' && climbs(project)) return expectRefused(listed);
      expect(JSON.parse(listed.text)).toEqual({ project, semantic_datasets: [] });
    });
  });
});
