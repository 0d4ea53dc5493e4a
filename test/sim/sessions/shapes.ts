import type { UnderstoodRequest } from '../../../src/line/understand.ts';
import { type EngineRequest, readEngineRequest } from '../../support/engine-request.ts';
import { discover, execute, type SessionSpec } from '../../support/envelopes.ts';

/** Stands where the id of a session will. */
const ID = 'the-id-of-a-session';

/** A request as it is sent again and again, by any user in any session. */
export interface Shape {
  readonly what: 'begin' | 'query' | 'statement' | 'end';
  readonly catalog: string;
  /** In words, for a history. */
  readonly words: string;
  readonly body: Buffer;
  readonly asked: UnderstoodRequest;
  readonly engine: EngineRequest;
}

const CATALOGS = ['', 'Sales', 'HR'];
const QUERIES = ['SELECT FROM [Cube 1]', 'SELECT FROM [Cube 2]', 'SELECT FROM [Cube 3]'];
const STATEMENT = "CREATE SESSION MEMBER [Cube 1].[Measures].[Mine] AS '1'";

/** All requests that clients of the oracle send. */
export async function makeShapes(
  understand: (
    headers: Readonly<Record<string, string>>,
    body: Buffer,
  ) => Promise<UnderstoodRequest>,
) {
  async function shape(
    what: Shape['what'],
    catalog: string,
    asks: string,
    body: Buffer,
  ): Promise<Shape> {
    const headers = { 'content-type': 'text/xml', 'user-agent': 'Excel' };
    const asked = await understand(headers, body);
    const words = [what, asks, catalog && `in ${catalog}`].filter(Boolean).join(' ');
    return { what, catalog, words, body, asked, engine: readEngineRequest(body, headers) };
  }
  const all = (make: (catalog: string) => Promise<Shape>) => Promise.all(CATALOGS.map(make));
  const properties = (catalog: string) => (catalog === '' ? {} : { Catalog: catalog });
  const send = (what: Shape['what'], statement: string, session?: SessionSpec) =>
    all((catalog) =>
      shape(
        what,
        catalog,
        statement,
        execute({ statement, properties: properties(catalog), ...(session && { session }) }),
      ),
    );
  const inside: SessionSpec = { kind: 'in', id: ID };
  const queries = await Promise.all(QUERIES.map((query) => send('query', query, inside)));
  const cubes = await all((catalog) =>
    shape(
      'query',
      catalog,
      'MDSCHEMA_CUBES',
      discover({ requestType: 'MDSCHEMA_CUBES', properties: properties(catalog), session: inside }),
    ),
  );
  const alone = await Promise.all(QUERIES.map((query) => send('query', query)));
  return {
    /** By catalog: none, and two. */
    begin: await send('begin', '', { kind: 'begin' }),
    beginByQuery: await send('begin', QUERIES[0] ?? '', { kind: 'begin' }),
    beginAndLeave: await send('begin', STATEMENT, { kind: 'begin' }),
    queries: [...queries, cubes],
    alone,
    statement: await send('statement', STATEMENT, inside),
    end: await send('end', '', { kind: 'end', id: ID }),
  };
}

/** As the gateway understands it in that session. */
export function askedIn({ asked }: Shape, id: string | undefined): UnderstoodRequest {
  const { request, session } = asked;
  if (id === undefined || request === undefined) return asked;
  const own = session.kind === 'in' || session.kind === 'end' ? { ...session, id } : session;
  return {
    ...asked,
    request: { ...request, session: own, sessionIds: [id] },
    session: own,
    sessionIds: [id],
  };
}

/** As the engine reads it when this user sends it in that session. */
export function asSent({ engine }: Shape, user: string, id: string | undefined): EngineRequest {
  const session = id === undefined ? engine.session : { ...engine.session, id };
  return { ...engine, user, session };
}
