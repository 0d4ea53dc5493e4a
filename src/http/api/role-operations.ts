import { ApiError, GatewayError, StorageUnavailable } from '../../errors.ts';
import { LEASE_MARGIN } from '../../lease.ts';
import { ADMIN_ROLE, type RoleStore } from '../../roles/role.ts';
import {
  membershipBody,
  ROLE_FIELDS,
  roleBody,
  roleIdPath,
  roleListQuery,
} from '../../roles/role-body.ts';
import { checked } from './checked.ts';
import type { ApiExchange, ApiHandlers } from './front.ts';
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

/** What a client whose change ended without an answer takes for done when it tries again. */
const SO_ALREADY: ReadonlySet<Refused> = new Set(['already-member', 'not-a-member']);
const REMOVED_ALREADY: ReadonlySet<Refused> = new Set(['no-such-role']);

type RoleHandlers = Pick<
  ApiHandlers,
  'createRole' | 'updateRole' | 'readRole' | 'deleteRole' | 'addUser' | 'removeUser' | 'listRoles'
>;

/** Of a role: some 20,000 members. It is parsed in one go, which keeps others waiting. */
const MOST_OF_A_ROLE = 1024 * 1024;

/** The operations of the interface document §4.1. */
export function createRoleOperations(options: {
  readonly roles: RoleStore;
  readonly sleep: (milliseconds: number) => Promise<void>;
  /** The longest lease that any gateway may have (ms). */
  readonly longestLease: number;
  /** Largest body in bytes. */
  readonly maxBody: number;
}): RoleHandlers {
  const { roles, sleep, longestLease } = options;
  const limit: [number, string] =
    options.maxBody < MOST_OF_A_ROLE
      ? [options.maxBody, 'limits.body']
      : [MOST_OF_A_ROLE, 'the most that a role may have'];

  async function readRole({ request }: ApiExchange) {
    const needed = 'name, description and contains';
    const { value, repeated } = await readJson(request, needed, ROLE_FIELDS, ...limit);
    return checked(roleBody, value, repeated);
  }

  async function readMembership({ request }: ApiExchange) {
    const { value, repeated } = await readJson(request, 'name and contains', ROLE_FIELDS, ...limit);
    return checked(membershipBody, value, repeated);
  }

  /** Until no gateway shares entries by role sets that it read before now. */
  async function outlive(): Promise<void> {
    const lease = await roles.lease().catch(() => longestLease);
    if (lease > 0) await sleep(lease * LEASE_MARGIN);
  }

  /**
   * Who is a member of what decides whose entries a user may be answered from. What may have been changed, now
   * or by an attempt before, is told when it holds everywhere.
   * @param soAlready refusals that say that it was changed before
   */
  async function changing<T>(
    write: () => Promise<T | Refused>,
    soAlready: ReadonlySet<Refused> = SO_ALREADY,
  ): Promise<T> {
    let result: T | Refused;
    try {
      result = await write();
    } catch (error) {
      const nothingDone = error instanceof StorageUnavailable && error.outcome === 'nothing-done';
      if (!nothingDone) await outlive();
      throw error;
    }
    if (!isRefused(result)) {
      await outlive();
      return result;
    }
    if (soAlready.has(result)) await outlive();
    throw REFUSALS[result]();
  }

  return {
    async createRole(exchange) {
      const role = await readRole(exchange);
      const { id } = await changing(() => roles.create(role));
      sendData(exchange.response, { role_id: id });
    },

    async updateRole(exchange) {
      const id = roleIdOf(exchange);
      const role = await readRole(exchange);
      await changing(() => roles.update(id, role));
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
      await changing(() => roles.remove(id), REMOVED_ALREADY);
      sendData(exchange.response, SUCCESS);
    },

    async addUser(exchange) {
      const id = roleIdOf(exchange);
      const { roleName, member } = await readMembership(exchange);
      await changing(() => roles.addMember(id, roleName, member));
      sendData(exchange.response, SUCCESS);
    },

    async removeUser(exchange) {
      const id = roleIdOf(exchange);
      const { roleName, member } = await readMembership(exchange);
      await changing(() => roles.removeMember(id, roleName, member));
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
