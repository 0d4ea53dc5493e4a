import { API_OTHER_METHODS, changing, enveloped, reading, SUCCESS } from './api-answers.ts';
import type { Operation, Parameter, Paths, RequestBody, Schema } from './openapi-types.ts';

const ref = (name: string): Schema => ({ $ref: `#/components/schemas/${name}` });

/**
 * One line of printable text in the order in which it is read, with something to see in it and without white space
 * at its ends, by ECMA-262 with the flag `u`.
 */
const UNPRINTABLE = '\\p{Cc}\\p{Cs}\\u2028\\u2029\\u202a-\\u202e\\u2066-\\u2069';
const INVISIBLE = '\\p{Cc}\\p{Cf}\\p{Cs}\\p{Z}\\p{Default_Ignorable_Code_Point}\\u2800';
const ONE_LINE = `^(?=.*[^${INVISIBLE}])[^\\s${UNPRINTABLE}](?:[^${UNPRINTABLE}]*[^\\s${UNPRINTABLE}])?$`;
/** Without halves of surrogate pairs. */
const WELL_FORMED = '^\\P{Cs}*$';
const MEMBER = { type: 'user', name: 'alice' };
const ROLE = { name: 'Sales', description: 'Everybody in sales', contains: [MEMBER] };

export const ROLE_SCHEMAS: Readonly<Record<string, Schema>> = {
  RoleId: {
    description: 'Given in sequence and never given again. Role 1, `Admin`, is built in.',
    type: 'integer',
    minimum: 1,
    maximum: Number.MAX_SAFE_INTEGER,
  },
  RoleName: {
    description:
      'Text of any script with at least one visible character; without control characters, controls of the ' +
      'direction of text, line breaks, or white space at either end. Unique among the roles; letter case, and ' +
      'how accents are composed, do not count.',
    type: 'string',
    minLength: 1,
    maxLength: 128,
    pattern: ONE_LINE,
  },
  RoleDescription: {
    description: 'May be empty, and have several lines.',
    type: 'string',
    maxLength: 2000,
    pattern: WELL_FORMED,
  },
  Member: {
    type: 'object',
    required: ['type', 'name'],
    properties: {
      type: { const: 'user', description: 'The only type there is.' },
      name: {
        description: 'The name of a user; letter case does not count.',
        type: 'string',
        minLength: 1,
        maxLength: 255,
        pattern: ONE_LINE,
      },
    },
  },
  Role: {
    type: 'object',
    required: ['name', 'description', 'contains'],
    properties: {
      name: ref('RoleName'),
      description: ref('RoleDescription'),
      contains: {
        description: 'The members. Of a user who is named twice the first spelling counts.',
        type: 'array',
        items: ref('Member'),
      },
    },
  },
  Membership: {
    type: 'object',
    required: ['name', 'contains'],
    properties: {
      name: { ...ref('RoleName'), description: 'The name of the role whose id is in the path.' },
      description: { ...ref('RoleDescription'), description: 'Says nothing here; usually empty.' },
      contains: {
        description: 'The one user to add or to remove.',
        type: 'array',
        items: ref('Member'),
        minItems: 1,
        maxItems: 1,
      },
    },
  },
  RolePage: {
    type: 'object',
    required: ['pageNum', 'pageSize', 'list', 'total'],
    properties: {
      pageNum: { type: 'integer', minimum: 0 },
      pageSize: { type: 'integer', minimum: 1 },
      list: {
        description: 'Newest first; empty behind the last page.',
        type: 'array',
        items: {
          type: 'object',
          required: ['id', 'name'],
          properties: {
            id: ref('RoleId'),
            name: ref('RoleName'),
            description: { ...ref('RoleDescription'), description: 'Only with `containsDesc`.' },
          },
        },
      },
      total: { description: 'How many roles match, on all pages.', type: 'integer', minimum: 0 },
    },
  },
};

const roleId: Parameter = {
  name: 'roleId',
  in: 'path',
  description: 'The id that creating the role returned; in decimal digits, without leading zeros.',
  required: true,
  // Swagger UI does not look for the type of a parameter behind a reference.
  schema: { ...ref('RoleId'), type: 'integer' },
  example: 2,
};

const roleBody: RequestBody = {
  description: 'The whole role; all three fields are required.',
  required: true,
  content: { 'application/json': { schema: ref('Role'), example: ROLE } },
};

const membershipBody: RequestBody = {
  description: 'The role by its name, which must fit the id in the path, and one user.',
  required: true,
  content: {
    'application/json': {
      schema: ref('Membership'),
      example: { name: 'Sales', contains: [MEMBER], description: '' },
    },
  },
};

const roleIdAnswer = enveloped(
  'The id of the role.',
  { type: 'object', required: ['role_id'], properties: { role_id: ref('RoleId') } },
  { role_id: 2 },
);
const done = enveloped('Done.', SUCCESS, 'success');

const createRole: Operation = {
  operationId: 'createRole',
  tags: ['Roles'],
  summary: 'Create a role',
  description: 'Creates a role with the listed users as its members. For administrators.',
  requestBody: roleBody,
  responses: changing({
    success: roleIdAnswer,
    refusals: ['name-taken'],
    hasBody: true,
    wrongInput: 'description: is missing; contains[2].type: must be "user".',
  }),
};

const updateRole: Operation = {
  operationId: 'updateRole',
  tags: ['Roles'],
  summary: 'Replace a role',
  description: 'Replaces name, description and all members; the id stays. For administrators.',
  requestBody: roleBody,
  responses: changing({
    success: roleIdAnswer,
    refusals: ['no-such-role', 'name-taken'],
    hasBody: true,
    wrongInput: 'name: must have at most 128 characters; contains: is missing.',
  }),
};

const readRole: Operation = {
  operationId: 'readRole',
  tags: ['Roles'],
  summary: 'Read a role',
  description: 'The name, the description and the members of a role, in the order they were given.',
  responses: reading({
    success: enveloped('The role.', ref('Role'), ROLE),
    refusals: ['no-such-role'],
    wrongInput: `roleId: must be a positive integer of at most ${Number.MAX_SAFE_INTEGER}.`,
  }),
};

const deleteRole: Operation = {
  operationId: 'deleteRole',
  tags: ['Roles'],
  summary: 'Delete a role',
  description: 'Deletes a role. The built-in role, 1, stays. For administrators.',
  responses: changing({
    success: done,
    refusals: ['no-such-role', 'built-in-role'],
    wrongInput: `roleId: must be a positive integer of at most ${Number.MAX_SAFE_INTEGER}.`,
  }),
};

const addUser: Operation = {
  operationId: 'addUser',
  tags: ['Roles'],
  summary: 'Add a user to a role',
  description: 'Adds one user to a role, whatever others do to it meanwhile. For administrators.',
  requestBody: membershipBody,
  responses: changing({
    success: done,
    refusals: ['no-such-role', 'already-member'],
    hasBody: true,
    wrongInput: 'contains: must hold exactly one user.',
  }),
};

const removeUser: Operation = {
  operationId: 'removeUser',
  tags: ['Roles'],
  summary: 'Remove a user from a role',
  description:
    'Removes one user from a role. The user is named in the body, which programs seldom send with DELETE. ' +
    'For administrators.',
  requestBody: membershipBody,
  responses: changing({
    success: done,
    refusals: ['no-such-role', 'not-a-member'],
    hasBody: true,
    wrongInput: 'name: the role with this id has another name.',
  }),
};

const LARGEST = 2_147_483_647;

const listRoles: Operation = {
  operationId: 'listRoles',
  tags: ['Roles'],
  summary: 'List roles',
  description: 'One page of the roles, newest first. Each parameter is given once.',
  parameters: [
    {
      name: 'pageNum',
      in: 'query',
      description: 'Number of the page; the first is 0.',
      required: true,
      schema: { type: 'integer', minimum: 0, maximum: LARGEST },
      example: 0,
    },
    {
      name: 'pageSize',
      in: 'query',
      description: 'How many roles a page holds.',
      required: true,
      schema: { type: 'integer', minimum: 1, maximum: LARGEST },
      example: 20,
    },
    {
      name: 'containsDesc',
      in: 'query',
      description: 'Whether the descriptions are listed.',
      required: true,
      schema: { type: 'boolean' },
      example: true,
    },
    {
      name: 'RoleName',
      in: 'query',
      description:
        'Lists only roles whose name contains this text, letter case aside; `%` and `_` stand for themselves. ' +
        'Empty: all.',
      required: false,
      schema: { type: 'string' },
      example: 'sal',
    },
  ],
  responses: reading({
    success: enveloped('A page of roles.', ref('RolePage'), {
      pageNum: 0,
      pageSize: 20,
      list: [{ id: 2, name: 'Sales', description: 'Everybody in sales' }],
      total: 1,
    }),
    wrongInput: `pageNum: must be given exactly once; pageSize: must be an integer from 1 to ${LARGEST}.`,
  }),
};

/** The operations of the interface document §4.1. */
export const ROLE_PATHS: Paths = {
  '/api/role': { post: createRole, 'x-other-methods': API_OTHER_METHODS },
  '/api/role/{roleId}': {
    parameters: [roleId],
    get: readRole,
    put: updateRole,
    delete: deleteRole,
    'x-other-methods': API_OTHER_METHODS,
  },
  '/api/role/user/visibility/{roleId}': {
    parameters: [roleId],
    post: addUser,
    delete: removeUser,
    'x-other-methods': API_OTHER_METHODS,
  },
  '/api/roles': { get: listRoles, 'x-other-methods': API_OTHER_METHODS },
};
