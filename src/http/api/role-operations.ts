import { ApiError, GatewayError } from '../../errors.ts';
import { invalidating, type Invalidate } from '../../invalidation.ts';
import { ADMIN_ROLE } from '../../roles/role.ts';
import { membershipBody, roleBody } from '../../roles/role-body.ts';
import { roleIdPath, roleListQuery } from '../../roles/role-queries.ts';
import type { RoleStore } from '../../roles/role-store.ts';
import { checked } from './checked.ts';
import type { ApiExchange, ApiHandlers } from './guards.ts';
import { queryParameters } from './query-parameters.ts';
import { readJson } from './read-json.ts';
import { sendData } from './send-json.ts';

const SUCCESS = 'success';

/** Why a store refused a change, as what the client is told. */
const REFUSALS = {
  'no-such-role': () => new ApiError('no-such-role', 'roleId: there is no role with this id.'),
  'name-taken': () =>
    new ApiError('name-taken', 'name: another role has this name; letter case does not count.'),
  'other-name': () =>
    new GatewayError('bad-request', 'name: the role with this id has another name.'),
  'already-member': () =>
    new ApiError('already-member', 'contains[0].name: this user is in the role already.'),
  'not-a-member': () =>
    new ApiError('not-a-member', 'contains[0].name: this user is not in the role.'),
} as const;

type Refused = keyof typeof REFUSALS;

type RoleHandlers = Pick<
  ApiHandlers,
  'createRole' | 'updateRole' | 'readRole' | 'deleteRole' | 'addUser' | 'removeUser' | 'listRoles'
>;

/** Of a role: some 20,000 members. It is parsed in one go, which keeps others waiting. */
const MOST_OF_A_ROLE = 1024 * 1024;

/** The operations of the interface document §4.1. */
export function createRoleOperations(options: {
  readonly roles: RoleStore;
  readonly invalidate: Invalidate;
  /** Largest body in bytes. */
  readonly maxBody: number;
}): RoleHandlers {
  const { roles, invalidate } = options;
  const limit: [number, string] =
    options.maxBody < MOST_OF_A_ROLE
      ? [options.maxBody, 'limits.body']
      : [MOST_OF_A_ROLE, 'the most that a role may have'];

  const readRole = async ({ request }: ApiExchange) =>
    checked(roleBody, await readJson(request, 'name, description and contains', ...limit));
  const readMembership = async ({ request }: ApiExchange) =>
    checked(membershipBody, await readJson(request, 'name and contains', ...limit));

  /** Who is a member of what decides whose entries a user may be answered from. */
  async function changing<T>(
    { principal }: ApiExchange,
    write: () => Promise<T | Refused>,
  ): Promise<T> {
    const result = await invalidating({
      invalidate,
      stale: 'roles',
      principal: principal.name,
      write,
      made: (result) => (isRefused(result) ? 'no' : 'yes'),
    });
    if (isRefused(result)) throw REFUSALS[result]();
    return result;
  }

  return {
    async createRole(exchange) {
      const role = await readRole(exchange);
      const { id } = await changing(exchange, () => roles.create(role));
      sendData(exchange.response, { role_id: id });
    },

    async updateRole(exchange) {
      const id = roleIdOf(exchange);
      const role = await readRole(exchange);
      await changing(exchange, () => roles.update(id, role));
      sendData(exchange.response, { role_id: id });
    },

    async readRole(exchange) {
      const role = await roles.read(roleIdOf(exchange));
      if (role === undefined) throw REFUSALS['no-such-role']();
      const { name, description, contains } = role;
      sendData(exchange.response, {
        name,
        description,
        contains: contains.map(({ type, name }) => ({ type, name })),
      });
    },

    async deleteRole(exchange) {
      const id = roleIdOf(exchange);
      if (id === ADMIN_ROLE.id) {
        throw new ApiError('built-in-role', 'roleId: the built-in role cannot be deleted.');
      }
      await changing(exchange, () => roles.remove(id));
      sendData(exchange.response, SUCCESS);
    },

    async addUser(exchange) {
      const id = roleIdOf(exchange);
      const { roleName, member } = await readMembership(exchange);
      await changing(exchange, () => roles.addMember(id, roleName, member));
      sendData(exchange.response, SUCCESS);
    },

    async removeUser(exchange) {
      const id = roleIdOf(exchange);
      const { roleName, member } = await readMembership(exchange);
      await changing(exchange, () => roles.removeMember(id, roleName, member));
      sendData(exchange.response, SUCCESS);
    },

    async listRoles({ request, response }) {
      const query = checked(roleListQuery, queryParameters(request));
      const { pageNum, pageSize, containsDesc, offset, nameContains } = query;
      const { roles: page, total } = await roles.list({ offset, limit: pageSize, nameContains });
      const list = page.map(({ id, name, description }) => ({
        id,
        name,
        description: containsDesc ? description : undefined,
      }));
      sendData(response, { pageNum, pageSize, list, total });
    },
  };
}

function roleIdOf({ parameters }: ApiExchange): number {
  return checked(roleIdPath, parameters).roleId;
}

function isRefused(result: unknown): result is Refused {
  return typeof result === 'string' && Object.hasOwn(REFUSALS, result);
}
