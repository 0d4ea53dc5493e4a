import type { Permissions } from '../auth/authenticator.ts';
import type { RememberedLogin } from '../auth/verified-credentials.ts';
import type { QueryCache } from '../cache/cache.ts';
import { clientControl } from '../http/request-head.ts';
import type { Arrived, Known, Memo } from './memo.ts';
import type { QueryOf } from './query.ts';
import type { Examine } from './session-step.ts';
import { destinationOf, type EngineOf } from './understand.ts';

/**
 * Finds the entry for a believed login. Walks the steps of the handler that neither keep nor change
 * anything, nor ask an engine.
 */
export function createBelievedHit(parts: {
  readonly permissions: Pick<Permissions, 'mayControlCache'>;
  readonly engineOf: EngineOf;
  readonly memo: Pick<Memo, 'read'>;
  readonly examine: Examine;
  readonly queryOf: QueryOf;
  readonly cache: Pick<QueryCache, 'keyOf'>;
}) {
  const { permissions, engineOf, memo, examine, queryOf, cache } = parts;

  /** Undefined where the request needs more than the cache holds. @throws as those steps do */
  return async (arrived: Arrived, login: RememberedLogin): Promise<Known | undefined> => {
    const { client, address, principal, body, ofPage } = arrived;
    const { headers, method } = client.request;
    const control = clientControl(headers, permissions.mayControlCache(principal));
    if (method !== 'POST' || control !== 'none') return undefined;
    const engine = engineOf(address.project);
    const destination = destinationOf(engine, address, principal, headers.authorization);
    const { asked: read } = await memo.read(arrived, destination);
    const { asked, step } = await examine(read, destination, principal, ofPage);
    if (step === 'refuse' || step.before !== 'nothing') return undefined;
    const { reason = asked.bypass, known: session } = step;
    if (reason !== undefined) return undefined;
    const query = await queryOf({ asked, destination, principal, body, session, fresh: false });
    const key = typeof query === 'string' ? undefined : await cache.keyOf(query);
    if (typeof query === 'string' || key === undefined) return undefined;
    const head = { ...destination, login, project: address.project };
    const { roles, staleIfError } = query;
    const answer = { key, roles, session: session?.record, staleIfError };
    return { head, asked: read, sessionId: session?.name.id, answer };
  };
}
