import type { Dataset } from '../../src/datasets/dataset.ts';
import type { DatasetStore } from '../../src/datasets/dataset-store.ts';
import { foldCase } from '../../src/fold-case.ts';
import { ADMIN_ROLE, type Member, type Role } from '../../src/roles/role.ts';
import type { RoleStore } from '../../src/roles/role-store.ts';
import type { Storage } from '../../src/storage/storage.ts';

/** The stores of a storage without a disk, as plain as can be: for tests of what stands before a storage. */
export function createMemoryStorage({
  firstMembers = [],
  wallClock = () => 0,
}: {
  readonly firstMembers?: readonly string[];
  /** Milliseconds since 1970. */
  readonly wallClock?: () => number;
} = {}): Pick<Storage, 'roles' | 'datasets'> {
  const contains = firstMembers.map((name): Member => ({ type: 'user', name }));
  const roles = new Map<number, Role>([[ADMIN_ROLE.id, { ...ADMIN_ROLE, contains }]]);
  const datasets: { id: number; lastModified: number; dataset: Dataset }[] = [];
  let nextRoleId = ADMIN_ROLE.id + 1;
  let nextDatasetId = 1;

  const isTaken = (name: string, by?: number) =>
    [...roles.values()].some((role) => role.id !== by && foldCase(role.name) === foldCase(name));
  const indexOf = ({ contains }: Role, { name }: Member) =>
    contains.findIndex((member) => foldCase(member.name) === foldCase(name));
  const seconds = () => Math.floor(wallClock() / 1000);
  const find = (project: string, name: string) =>
    datasets.find(({ dataset }) => dataset.project === project && dataset.name === name);

  /** The role of this id under this name, or why there is none. */
  function named(id: number, roleName: string): Role | 'no-such-role' | 'other-name' {
    const role = roles.get(id);
    if (role === undefined) return 'no-such-role';
    return foldCase(role.name) === foldCase(roleName) ? role : 'other-name';
  }

  const roleStore: RoleStore = {
    async create(input) {
      if (isTaken(input.name)) return 'name-taken';
      const id = nextRoleId++;
      roles.set(id, { id, ...input });
      return { id };
    },
    read: async (id) => roles.get(id),
    async update(id, input) {
      if (!roles.has(id)) return 'no-such-role';
      if (isTaken(input.name, id)) return 'name-taken';
      roles.set(id, { id, ...input });
      return 'done';
    },
    remove: async (id) => (roles.delete(id) ? 'done' : 'no-such-role'),
    async addMember(id, roleName, member) {
      const role = named(id, roleName);
      if (typeof role === 'string') return role;
      if (indexOf(role, member) >= 0) return 'already-member';
      roles.set(id, { ...role, contains: [...role.contains, member] });
      return 'done';
    },
    async removeMember(id, roleName, member) {
      const role = named(id, roleName);
      if (typeof role === 'string') return role;
      const index = indexOf(role, member);
      if (index < 0) return 'not-a-member';
      roles.set(id, { ...role, contains: role.contains.toSpliced(index, 1) });
      return 'done';
    },
    async list({ offset, limit, nameContains }) {
      const matching = [...roles.values()]
        .filter(({ name }) => foldCase(name).includes(foldCase(nameContains)))
        .sort((a, b) => b.id - a.id);
      const page = matching.slice(offset, offset + limit);
      return {
        roles: page.map(({ id, name, description }) => ({ id, name, description })),
        total: matching.length,
      };
    },
    async rolesOf(userName) {
      const user: Member = { type: 'user', name: userName };
      const ids = [...roles.values()].filter((role) => indexOf(role, user) >= 0);
      return ids.map(({ id }) => id).sort((a, b) => a - b);
    },
  };

  const datasetStore: DatasetStore = {
    async create(dataset) {
      if (find(dataset.project, dataset.name) !== undefined) return 'exists';
      const id = nextDatasetId++;
      datasets.push({ id, lastModified: seconds(), dataset });
      return { id };
    },
    async update(dataset) {
      const row = find(dataset.project, dataset.name);
      if (row === undefined) return 'no-such-dataset';
      Object.assign(row, { dataset, lastModified: seconds() });
      return { id: row.id };
    },
    read: async (project, name) => find(project, name)?.dataset,
    async list(project) {
      return datasets
        .filter(({ dataset }) => dataset.project === project)
        .map(({ id, lastModified, dataset: { name, type } }) => ({ id, name, type, lastModified }));
    },
  };

  return { roles: roleStore, datasets: datasetStore };
}
