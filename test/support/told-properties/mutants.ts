import type { Mutant } from '../oracle/mutants.ts';
import type { World } from './oracle.ts';

/** A fault, and the houses that show it best. */
interface ToldMutant extends Mutant {
  readonly world: Partial<World>;
}

const USUAL = { columns: 'usual', more: '' } as const;
const EACH = { ...USUAL, reads: 'each' } as const;
const IN_SESSIONS: Partial<World> = {
  ...{ ...EACH, kind: 'generic', share: 'everyone', rows: 'all', makes: false },
};
const ALL_USERS = { ...EACH, share: 'everyone', rows: 'all' } as const;

const at =
  (file: string) =>
  (find: string, put: string, world: Partial<World>): ToldMutant => ({
    replacements: [{ file, find, put }],
    world,
  });
const ofPolicy = at('xmla/request/property-policy.ts');
const ofRows = at('xmla/answer/property-rows.ts');
const ofKey = at('cache/key.ts');

/** The faults that the oracle for what DISCOVER_PROPERTIES tells has to find. */
export const TOLD_MUTANTS: Readonly<Record<string, ToldMutant>> = {
  'rows of properties that were not asked for are kept': ofRows(' && asked.has(folded)', '', {
    reads: 'everything',
    columns: 'usual',
  }),
  'values of ignored properties are kept': ofRows(
    ' && !(hasValue && VALUES_NOT_KEYED.has(folded))',
    '',
    { ...EACH, makes: true },
  ),
  'a row without a name, or with two, is kept': ofRows(
    'names === 1 && asked.has(folded)',
    '(names !== 1 || asked.has(folded))',
    { reads: 'everything', columns: 'no name' },
  ),
  'a value in another column is no value': ofRows(
    'hasValue ||= !WITHOUT_VALUE.has(column)',
    "hasValue ||= column === 'Value'",
    { ...EACH, makes: true, columns: 'other value' },
  ),
  'a value in parts is no value': ofRows('if (depth > COLUMN) hasValue = true;', '', {
    ...EACH,
    makes: true,
    columns: 'in parts',
  }),
  'ignored properties may be asked for in a session': ofPolicy('!inSession && ', '', IN_SESSIONS),
  'a session that a header names is none': at('line/understand.ts')(
    "const isInSession = session.kind === 'in';",
    "const isInSession = request.session.kind === 'in';",
    IN_SESSIONS,
  ),
  'ignored properties may be asked for by a request that has some': ofPolicy(
    '!inSession && !properties.some(({ name }) => IGNORED_PROPERTIES.has(name))',
    '!inSession',
    EACH,
  ),
  'values of ignored properties may always be asked for': ofPolicy(
    'return isAllKeyed || !VALUES_NOT_KEYED.has(folded);',
    'return true;',
    EACH,
  ),
  'a list is never read as one name': ofPolicy(
    "[...values, values.join('')].every",
    'values.every',
    { ...USUAL, reads: 'joined', rows: 'told', makes: false },
  ),
  'letters of another width are none of the name': ofPolicy('!PROPERTY_NAME.test(name) || ', '', {
    ...{ ...USUAL, reads: 'alike', spells: 'asked' },
  }),
  'who asks is told to others': ofPolicy(' || IDENTITY.has(folded)) return', ') return', ALL_USERS),
  'what makes the engine read anew is answered from the cache': ofPolicy(
    "if (catalogsReread && folded.includes('catalog')) return false;",
    '',
    { ...EACH, kind: 'kylin' },
  ),
  'the current catalog is the same before and after the first one is named': at(
    'sessions/session-plan.ts',
  )('(isInherited && isExtended(record.profile))', 'false', IN_SESSIONS),
  'sessions with different catalogs share': at('line/query.ts')(
    'JSON.stringify([record.profile, record.catalog, ',
    'JSON.stringify([',
    IN_SESSIONS,
  ),
  'the list is not in the key': ofKey(
    'r.restrictions.map((one) => [one.name, one.form, one.values])',
    'r.restrictions.map((one) => [one.name, one.form])',
    EACH,
  ),
  'the form of the list is not in the key': ofKey(
    'r.restrictions.map((one) => [one.name, one.form, one.values])',
    'r.restrictions.map((one) => [one.name, one.values])',
    EACH,
  ),
  'names of ignored properties are not in the key': ofPolicy(
    '  return properties\n    .map(({ name, value }) =>',
    '  return properties\n    .filter(({ name }) => !IGNORED_PROPERTIES.has(name))\n    .map(({ name, value }) =>',
    EACH,
  ),
};
