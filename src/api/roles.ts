import { ApiError, GatewayError } from '../common/errors.ts';
import { LEASE_MARGIN } from '../common/leases.ts';
import { queryParameters } from '../http/request-head.ts';
import {
  ADMIN_ROLE,
  membershipBody,
  ROLE_FIELDS,
  roleBody,
  roleIdPath,
  roleListQuery,
  type Member,
  type RoleStore,
} from '../roles/role.ts';
import { type ApiExchange, type ApiHandlers, type ApiLimits, attempt, roleSubject } from './api.ts';
import { checked, readJson } from './json.ts';

const REFUSALS = {
  'no-such-role': 'roleId: there is no role with this id.',
  'name-taken': 'name: another role has this name; letter case does not count.',
  'other-name': 'name: the role with this id has another name.',
  'already-member': 'contains[0].name: this user is in the role already.',
  'not-a-member': 'contains[0].name: this user is not in the role.',
} as const;

type Refused = keyof typeof REFUSALS;
/** Refusals that a client takes for success when it repeats a change that got no answer. */
const SO_ALREADY: readonly Refused[] = ['already-member', 'not-a-member'];
/** Some 20,000 members. Parsing more at once would block the event loop. */
const MOST_OF_A_ROLE = 1024 * 1024;

export function createRoleOperations(options: {
  readonly roles: RoleStore;
  readonly sleep: (milliseconds: number) => Promise<void>;
  /** The longest lease of any gateway (ms). */
  readonly longestLease: number;
  readonly limits: ApiLimits;
}) {
  const { roles, sleep, longestLease, limits } = options;
  const bytes = Math.min(limits.body, MOST_OF_A_ROLE);
  const limitName = bytes < MOST_OF_A_ROLE ? 'limits.body' : 'the most that a role may have';
  const limit = { bytes, limitName };

  async function readRole({ request, facts }: ApiExchange, id?: number) {
    const needed = 'name, description and contains';
    const role = await readJson(request, roleBody, needed, ROLE_FIELDS, limit);
    facts.subject = roleSubject(id, role.name, namesOf(role.contains));
    return role;
  }

  async function outlive(): Promise<void> {
    const lease = await roles.lease().catch(() => longestLease);
    if (lease > 0) await sleep(lease * LEASE_MARGIN);
  }

  /**
   * Answers when the change counts everywhere: memberships decide who gets which entries.
   * @param soAlready refusals that tell of an earlier change
   */
  async function changing<T>(
    write: () => Promise<T | Refused>,
    soAlready: readonly Refused[] = SO_ALREADY,
  ): Promise<T> {
    const result = await attempt(write, outlive);
    const refused = isRefused(result);
    if (!refused || soAlready.includes(result)) await outlive();
    if (refused) throw refusal(result);
    return result;
  }

  async function changeMember(exchange: ApiExchange, how: 'addMember' | 'removeMember') {
    const id = roleIdOf(exchange);
    const needed = 'name and contains';
    const body = await readJson(exchange.request, membershipBody, needed, ROLE_FIELDS, limit);
    exchange.facts.subject = roleSubject(id, body.roleName, namesOf([body.member]));
    await changing<'done' | Refused>(() => roles[how](id, body.roleName, body.member));
    return 'success';
  }

  return {
    async createRole(exchange) {
      const role = await readRole(exchange);
      return { role_id: (await changing(() => roles.create(role))).id };
    },
    async updateRole(exchange) {
      const id = roleIdOf(exchange);
      const role = await readRole(exchange, id);
      await changing(() => roles.update(id, role));
      return { role_id: id };
    },
    async readRole(exchange) {
      const role = await roles.read(roleIdOf(exchange));
      if (role === undefined) throw refusal('no-such-role');
      const { id: _, ...data } = role;
      return data;
    },
    async deleteRole(exchange) {
      const id = roleIdOf(exchange);
      if (id === ADMIN_ROLE.id) {
        throw new ApiError('built-in-role', 'roleId: the built-in role cannot be deleted.');
      }
      exchange.facts.subject = roleSubject(id, (await roles.read(id))?.name);
      await changing(() => roles.remove(id), ['no-such-role']);
      return 'success';
    },
    addUser: (exchange) => changeMember(exchange, 'addMember'),
    removeUser: (exchange) => changeMember(exchange, 'removeMember'),
    async listRoles({ request }) {
      const query = checked(roleListQuery, queryParameters(request));
      const { pageNum, pageSize, containsDesc, offset, nameContains } = query;
      const { roles: page, total } = await roles.list({ offset, limit: pageSize, nameContains });
      const list = containsDesc ? page : page.map(({ id, name }) => ({ id, name }));
      return { pageNum, pageSize, list, total };
    },
  } satisfies Partial<ApiHandlers>;
}

function roleIdOf({ parameters, facts }: ApiExchange): number {
  const { roleId } = checked(roleIdPath, parameters);
  facts.subject = roleSubject(roleId);
  return roleId;
}

const namesOf = (members: readonly Member[]) => members.map(({ name }) => name);

const isRefused = (result: unknown): result is Refused =>
  typeof result === 'string' && Object.hasOwn(REFUSALS, result);

const refusal = (why: Refused) =>
  why === 'other-name'
    ? new GatewayError('bad-request', REFUSALS[why])
    : new ApiError(why, REFUSALS[why]);
