import type { Dataset, DatasetSummary, DatasetStore } from '../../src/datasets/dataset.ts';
import { foldCase } from '../../src/common/fold-case.ts';
import { ADMIN_ROLE, type Member, type Role, type RoleStore } from '../../src/roles/role.ts';
import type { StorageRecord } from '../../src/storage/sql-database.ts';

/** What a storage must do, as plainly as it can be said; leases are noted for ever. */
export interface StorageModel {
  readonly roles: RoleStore;
  readonly datasets: DatasetStore;
  /** What a dump of it must be. */
  records(): StorageRecord[];
}

/** @param seconds whole seconds since 1970, as written to datasets */
export function storageModel(firstMembers: readonly string[], seconds: () => number): StorageModel {
  const admins = firstMembers.map((name): Member => ({ type: 'user', name }));
  let roles: Role[] = [{ ...ADMIN_ROLE, contains: admins }];
  let datasets: { id: number; lastModified: number; dataset: Dataset }[] = [];
  let nextRoleId = 2;
  let nextDatasetId = 1;
  let changes = 0;
  let longestLease = 0;

  const same = (one: string) => (other: { readonly name: string }) =>
    foldCase(one) === foldCase(other.name);
  const tokenNow = () => `token ${changes}`;
  const roleOf = (id: number) => roles.find((role) => role.id === id);
  const replaceRoles = (changed: Role[]) => {
    roles = changed;
    changes += 1;
  };
  const replace = (role: Role) =>
    replaceRoles(roles.map((other) => (other.id === role.id ? role : other)));
  const datasetOf = (project: string, name: string) =>
    datasets.find(({ dataset }) => dataset.project === project && dataset.name === name);

  return {
    roles: {
      async create(role) {
        if (roles.some(same(role.name))) return 'name-taken';
        const id = nextRoleId++;
        replaceRoles([...roles, { id, ...role }]);
        return { id };
      },
      read: async (id) => roleOf(id),
      async update(id, role) {
        if (roleOf(id) === undefined) return 'no-such-role';
        const taken = roles.some((other) => other.id !== id && same(role.name)(other));
        if (taken) return 'name-taken';
        replace({ id, ...role });
        return 'done';
      },
      async remove(id) {
        if (roleOf(id) === undefined) return 'no-such-role';
        replaceRoles(roles.filter((role) => role.id !== id));
        return 'done';
      },
      async addMember(id, roleName, member) {
        const role = roleOf(id);
        if (role === undefined) return 'no-such-role';
        if (!same(roleName)(role)) return 'other-name';
        if (role.contains.some(same(member.name))) return 'already-member';
        replace({ ...role, contains: [...role.contains, member] });
        return 'done';
      },
      async removeMember(id, roleName, member) {
        const role = roleOf(id);
        if (role === undefined) return 'no-such-role';
        if (!same(roleName)(role)) return 'other-name';
        if (!role.contains.some(same(member.name))) return 'not-a-member';
        const contains = role.contains.filter((other) => !same(member.name)(other));
        replace({ ...role, contains });
        return 'done';
      },
      async list({ offset, limit, nameContains }) {
        const part = foldCase(nameContains);
        const found = roles.filter(({ name }) => foldCase(name).includes(part)).toReversed();
        const page = found.slice(offset, offset + limit);
        return {
          roles: page.map(({ id, name, description }) => ({ id, name, description })),
          total: found.length,
        };
      },
      roleSet: async (userName) => ({
        token: tokenNow(),
        ids: roles.filter(({ contains }) => contains.some(same(userName))).map(({ id }) => id),
      }),
      async token(lease) {
        longestLease = Math.max(longestLease, lease);
        return tokenNow();
      },
      lease: async () => longestLease,
    },
    datasets: {
      async create(dataset) {
        if (datasetOf(dataset.project, dataset.name) !== undefined) return 'exists';
        const id = nextDatasetId++;
        datasets.push({ id, lastModified: seconds(), dataset });
        return { id };
      },
      async update(dataset) {
        const old = datasetOf(dataset.project, dataset.name);
        if (old === undefined) return 'no-such-dataset';
        const { id } = old;
        const updated = { id, lastModified: seconds(), dataset };
        datasets = datasets.map((other) => (other.id === id ? updated : other));
        return { id };
      },
      read: async (project, name) => datasetOf(project, name)?.dataset,
      list: async (project) =>
        datasets
          .filter(({ dataset }) => dataset.project === project)
          .map(({ id, lastModified, dataset: { name, type } }): DatasetSummary => {
            return { id, name, type, lastModified };
          }),
    },
    records: () => [
      { kind: 'head', roles: roles.length, datasets: datasets.length, nextRoleId, nextDatasetId },
      ...roles.map((role): StorageRecord => ({ kind: 'role', role })),
      ...datasets.map(({ id, lastModified, dataset }): StorageRecord => {
        return { kind: 'dataset', id, lastModified, dataset };
      }),
    ],
  };
}
