import { afterAll, describe, expect, test } from '@jest/globals';
import * as fc from 'fast-check';
import type { Answer } from '../support/http-client.ts';
import { sizes } from '../support/sizes.ts';
import { closeDrivers, DRIVERS, startDriver } from '../support/storage-drivers.ts';
import { apiOf, failureOf, outcomeOf, users, type Api, type Role } from './api-client.ts';
import { storageModel } from './storage-model.ts';
import { codePoint } from '../support/code-point.ts';

afterAll(closeDrivers);

type Operations = Omit<Api, 'created'>;

/** What each operation says; times are left out. */
type Said = { [N in keyof Operations]: (...args: Parameters<Operations[N]>) => Promise<unknown> };

const BAD = '400 bad-request';

const isName = (text: string) =>
  text !== '' && text === text.trim() && text.isWellFormed() && !text.includes('\0');

interface Document {
  readonly project: string;
  readonly dataset_name: string;
  readonly type: string;
}

/** The rules of the interface, over the model of a storage. */
function modelOf(): Said {
  const { roles, datasets } = storageModel(['ADMIN'], () => 0);
  const isRole = ({ name, description, contains }: Role) =>
    isName(name) && description.isWellFormed() && contains.every((member) => isName(member.name));

  /** Members that are named twice stand once: as when they are added one by one. */
  async function roleInput({ name, description, contains }: Role) {
    const { roles } = storageModel([], () => 0);
    await roles.create({ name: 'members', description: '', contains: [] });
    for (const { name } of contains) await roles.addMember(2, 'members', { type: 'user', name });
    return { name, description, contains: (await roles.read(2))?.contains ?? [] };
  }

  const statusOf = {
    'no-such-role': '404 no-such-role',
    'name-taken': '409 name-taken',
    'other-name': BAD,
    'already-member': '409 already-member',
    'not-a-member': '404 not-a-member',
    done: 'success',
  } as const;

  const parse = (document: Buffer | string) => {
    const { project, dataset_name: name, type } = JSON.parse(String(document)) as Document;
    return { project, name, type, document: Buffer.from(document) };
  };

  return {
    async create(body) {
      const role = body as Role;
      if (!isRole(role)) return BAD;
      const created = await roles.create(await roleInput(role));
      return created === 'name-taken' ? statusOf[created] : { role_id: created.id };
    },
    async update(id, body) {
      const role = body as Role;
      if (id < 1 || !isRole(role)) return BAD;
      const updated = await roles.update(id, await roleInput(role));
      return updated === 'done' ? { role_id: id } : statusOf[updated];
    },
    async read(id) {
      if (id < 1) return BAD;
      const role = await roles.read(id);
      if (role === undefined) return statusOf['no-such-role'];
      const { name, description, contains } = role;
      return { name, description, contains };
    },
    async remove(id) {
      if (id < 1) return BAD;
      return id === 1 ? '409 built-in-role' : statusOf[await roles.remove(id)];
    },
    async add(id, name, user) {
      if (id < 1 || !isName(name) || !isName(user)) return BAD;
      return statusOf[await roles.addMember(id, name, { type: 'user', name: user })];
    },
    async drop(id, name, user) {
      if (id < 1 || !isName(name) || !isName(user)) return BAD;
      return statusOf[await roles.removeMember(id, name, { type: 'user', name: user })];
    },
    async list({ pageNum = '', pageSize = '', containsDesc, RoleName = '' }) {
      const [page, size] = [Number(pageNum), Number(pageSize)];
      if (page < 0 || size < 1) return BAD;
      const found = await roles.list({ offset: page * size, limit: size, nameContains: RoleName });
      const list = found.roles.map(({ id, name, description }) =>
        containsDesc === 'true' ? { id, name, description } : { id, name },
      );
      return { pageNum: page, pageSize: size, list, total: found.total };
    },
    async import(document) {
      const imported = await datasets.create(parse(document));
      return imported === 'exists' ? '409 dataset-exists' : { dataset_id: imported.id };
    },
    async replace(document) {
      const updated = await datasets.update(parse(document));
      return updated === 'no-such-dataset' ? `404 ${updated}` : { dataset_id: updated.id };
    },
    async export(project, name) {
      if (project === '' || name === '') return BAD;
      const found = await datasets.read(project, name);
      return found === undefined ? '404 no-such-dataset' : String(found.document);
    },
    async datasets(project) {
      const list = await datasets.list(project);
      return {
        project,
        semantic_datasets: list.map(({ id, name, type }) => ({
          dataset_id: id,
          dataset_name: name,
          type,
        })),
      };
    },
  };
}

/** What the gateway says, in the words of the model. */
function saidBy(api: Api): Said {
  const data = async (answer: Promise<Answer>) => outcomeOf(await answer);
  return {
    create: (role) => data(api.create(role)),
    update: (id, role) => data(api.update(id, role)),
    read: (id) => data(api.read(id)),
    remove: (id) => data(api.remove(id)),
    add: (id, name, user) => data(api.add(id, name, user)),
    drop: (id, name, user) => data(api.drop(id, name, user)),
    list: (query) => data(api.list(query)),
    import: (document) => data(api.import(document)),
    replace: (document) => data(api.replace(document)),
    async export(project, name, type) {
      const answer = await api.export(project, name, type);
      return answer.status === 200 ? answer.text : failureOf(answer);
    },
    async datasets(project) {
      const answer = await api.datasets(project);
      const listed = JSON.parse(answer.text) as { semantic_datasets: { last_modified: number }[] };
      const semantic_datasets = listed.semantic_datasets.map(({ last_modified, ...rest }) => {
        expect(Number.isInteger(last_modified)).toBe(true);
        return rest;
      });
      return { ...listed, semantic_datasets };
    },
  };
}

// Few names in many spellings, so that they meet; some of them may not be names.
const roleName = fc.constantFrom(
  'a',
  'A',
  'ß',
  'SS',
  'é',
  'E\u0301',
  'admin',
  '%',
  'b c',
  ' a',
  '',
);
const userName = fc.constantFrom(
  'ann',
  'ANN',
  'ADMIN',
  'ß',
  'sS',
  'İ',
  'i\u0307',
  '😀',
  'x\0',
  '\ud800',
);
const roleId = fc.integer({ min: 0, max: 9 });
const role = fc.record({
  name: roleName,
  description: fc.string({ unit: codePoint, maxLength: 5 }),
  contains: fc.array(userName, { maxLength: 4 }).map((names) => users(...names)),
});
const text = fc.constantFrom('a', 'A', 'é', 'e\u0301', 'a ', '\0', '..%2f', "'");
const type = fc.constantFrom('MDX', 'mdx', 'Mdx', 'other');
const document = fc
  .record({ project: text, dataset_name: text, type, data: fc.json({ maxDepth: 2 }) })
  .map((value) => JSON.stringify(value, undefined, 1));
const page = fc.record(
  {
    pageNum: fc.integer({ min: -1, max: 4 }).map(String),
    pageSize: fc.integer({ min: 0, max: 4 }).map(String),
    containsDesc: fc.boolean().map(String),
    RoleName: fc.constantFrom('', 'a', 'S', '%', 'é', '\0', 'DM'),
  },
  { requiredKeys: ['pageNum', 'pageSize', 'containsDesc'] },
);

/** One request, which prints as it is made. */
interface Step {
  run(said: Said): Promise<unknown>;
  toString(): string;
}

/** A request, as often as its weight says, with arguments of these kinds. */
function step<const Args extends readonly unknown[]>(
  weight: number,
  args: { readonly [I in keyof Args]: fc.Arbitrary<Args[I]> },
  run: (said: Said, ...args: Args) => Promise<unknown>,
): { readonly weight: number; readonly arbitrary: fc.Arbitrary<Step> } {
  const values = fc.tuple(...args) as unknown as fc.Arbitrary<Args>;
  const arbitrary = values.map((values) => ({
    run: (said: Said) => run(said, ...values),
    toString: () => `${run} of ${fc.stringify(values)}`,
  }));
  return { weight, arbitrary };
}

const steps = fc.array(
  fc.oneof(
    step(10, [role], (said, ...args) => said.create(...args)),
    step(5, [roleId, role], (said, ...args) => said.update(...args)),
    step(4, [roleId], (said, ...args) => said.read(...args)),
    step(2, [roleId], (said, ...args) => said.remove(...args)),
    step(8, [roleId, roleName, userName], (said, ...args) => said.add(...args)),
    step(6, [roleId, roleName, userName], (said, ...args) => said.drop(...args)),
    step(5, [page], (said, ...args) => said.list(...args)),
    step(8, [document], (said, ...args) => said.import(...args)),
    step(5, [document], (said, ...args) => said.replace(...args)),
    step(5, [text, text, type], (said, ...args) => said.export(...args)),
    step(3, [text], (said, ...args) => said.datasets(...args)),
  ),
  { minLength: 1, maxLength: 40 },
);

describe.each(DRIVERS)('random requests over %s', (driver) => {
  test('are answered as a model in memory says, one after the other', async () => {
    await fc.assert(
      fc.asyncProperty(steps, async (steps) => {
        const gateway = await startDriver(driver);
        const said = saidBy(apiOf(gateway.url));
        const model = modelOf();
        try {
          for (const step of steps) expect(await step.run(said)).toEqual(await step.run(model));
        } finally {
          await gateway.close();
        }
      }),
      { numRuns: sizes.apiRuns, endOnFailure: true },
    );
  });
});
