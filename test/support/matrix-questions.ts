import type { EngineKind } from '../../src/common/engine-kinds.ts';
import { discover, execute } from './envelopes.ts';

/** What the users of the matrix of identities and sessions ask. */
export interface Question {
  readonly name: string;
  /** An envelope without a header. */
  readonly body: string;
  readonly cacheable: (kind: EngineKind) => boolean;
}

export const CATALOG = { Catalog: 'Bazaar' };
export const always = () => true;
export const OWN_QUESTIONS: readonly Question[] = [
  {
    name: 'a SELECT that names no catalog',
    body: execute({ statement: 'SELECT FROM [Sales]' }).toString(),
    cacheable: always,
  },
  {
    name: 'a SELECT with a parameter',
    body: execute({
      statement: 'SELECT FROM [Sales] WHERE @p',
      parameters: [{ name: 'p', type: 'xsd:string', value: 'x' }],
      properties: CATALOG,
    }).toString(),
    cacheable: always,
  },
  {
    name: 'cubes',
    body: discover({
      requestType: 'MDSCHEMA_CUBES',
      restrictions: { CATALOG_NAME: 'Bazaar' },
      properties: CATALOG,
    }).toString(),
    cacheable: always,
  },
  {
    name: 'hierarchies of whatever catalog',
    body: discover({ requestType: 'MDSCHEMA_HIERARCHIES' }).toString(),
    cacheable: always,
  },
  {
    name: 'catalogs',
    body: discover({ requestType: 'DBSCHEMA_CATALOGS', properties: CATALOG }).toString(),
    cacheable: (kind) => kind !== 'kylin',
  },
  {
    name: 'sessions',
    body: discover({ requestType: 'DISCOVER_SESSIONS', properties: CATALOG }).toString(),
    cacheable: () => false,
  },
];
