import { execute } from './envelopes.ts';
import { askXmla, send, shortStatus, type Answer } from './http-client.ts';
import type { KylinEngine } from './kylin-engine.ts';
import { basic, type TestGateway } from './test-gateway.ts';

const QUERY = execute({ statement: 'SELECT FROM [Sales]', properties: { Catalog: 'learn' } });

/** As `engine.url` names it. */
export const urlOf = ({ base }: KylinEngine) => `${base}/mdx/xmla/{project}`;

/** Settings of a gateway that has these replicas clear their caches. Bob may purge, too. */
export function clearingSettings(
  replicas: readonly KylinEngine[],
  engine: Record<string, unknown> = {},
  cache: Record<string, unknown> = {},
) {
  return {
    engine: { url: replicas.map(urlOf), kind: 'kylin', clear: 'kylin', ...engine },
    auth: { purgers: ['bob'] },
    cache,
  };
}

/** Sends a query of the project learn. */
export function askLearn({ url }: TestGateway): Promise<Answer> {
  return askXmla(url, QUERY, { path: '/mdx/xmla/learn' });
}

export const statusOf = async (gateway: TestGateway) => shortStatus(await askLearn(gateway));

/** Calls clearCache, of the project learn where nothing else is said. */
export function clearCache(
  { url }: TestGateway,
  { path = '/mdx/xmla/learn/clearCache', user = 'ADMIN', accept = '*/*' } = {},
): Promise<Answer> {
  return send(url, { path, headers: { authorization: basic(user), accept } });
}
