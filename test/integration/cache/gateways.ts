import { discover } from '../../support/envelopes.ts';
import { checkedFetch } from '../../support/checked-requests.ts';
import { rowsetAnswer } from '../../support/answers.ts';
import { sendXml, startStubEngine, type StubEngine } from '../../support/stub-engine.ts';
import { basic, startTestGateway, type TestGateway } from '../../support/test-gateway.ts';
import { until } from './redis-house.ts';

/** The shortest lease that the configuration takes, since a purge waits for it. */
const LEASE = '100ms';

interface Question {
  readonly project?: string;
  readonly cube?: string;
  readonly user?: 'alice' | 'bob';
}

export interface Answer {
  readonly status: number;
  /** What stands behind the gateway's name in Cache-Status. */
  readonly cache: string;
  readonly body: string;
}

/** Asks for a cube; the answer of {@link startDataEngine} names project, cube and data. */
export async function ask(
  gateway: TestGateway,
  { project = 'a', cube = 'Sales', user = 'alice' }: Question = {},
): Promise<Answer> {
  const response = await checkedFetch(`${gateway.url}/mdx/xmla/${project}`, {
    method: 'POST',
    headers: { authorization: basic(user), 'content-type': 'text/xml', accept: 'text/xml' },
    body: new Uint8Array(
      discover({
        requestType: 'MDSCHEMA_CUBES',
        restrictions: { CATALOG_NAME: project, CUBE_NAME: cube },
      }),
    ),
  });
  return {
    status: response.status,
    cache: (response.headers.get('cache-status') ?? '').replace('mdx-gateway; ', ''),
    body: await response.text(),
  };
}

export interface DataEngine extends StubEngine {
  /** What its answers hold. */
  data: string;
}

/** An engine whose answer names the project, the cube and the data of the moment when it was asked. */
export async function startDataEngine(): Promise<DataEngine> {
  const stub = await startStubEngine((response, request) => {
    const project = decodeURIComponent(request.url.split('/').at(-1) ?? '');
    const cube = /<CUBE_NAME>(.*?)<\/CUBE_NAME>/u.exec(request.body.toString())?.[1] ?? '';
    void sendXml(dataAnswer(engine.data, { project, cube }))(response, request);
  });
  const engine = Object.assign(stub, { data: 'old' });
  return engine;
}

/** The whole answer of {@link startDataEngine}. */
export function dataAnswer(data: string, { project = 'a', cube = 'Sales' } = {}): string {
  return rowsetAnswer({ names: [`${project} ${cube} ${data}`] });
}

/** A gateway before that engine, and on that Redis if one is given. */
export function startGateway(
  engine: StubEngine,
  redisUrl = '',
  cache: Record<string, unknown> = {},
): Promise<TestGateway> {
  return startTestGateway({
    engine: { url: `${engine.url}/{project}` },
    cache: { lease: LEASE, redis: { url: redisUrl }, ...cache },
  });
}

export interface PurgeAnswer {
  readonly status: number;
  readonly text: string;
}

/** Purges a project, or everything. */
export async function purge(
  gateway: TestGateway,
  project?: string,
  headers: Record<string, string> = {},
): Promise<PurgeAnswer> {
  const path = project === undefined ? '' : `/${encodeURIComponent(project)}`;
  const response = await checkedFetch(`${gateway.url}/mdx/xmla${path}/clearCache`, {
    headers: { authorization: basic('ADMIN'), ...headers },
  });
  return { status: response.status, text: await response.text() };
}

/** What /health/ready says of Redis. */
export async function redisHealth(
  gateway: TestGateway,
): Promise<{ readonly state: string; readonly purges_owed: number }> {
  const response = await checkedFetch(`${gateway.url}/health/ready`, {
    headers: { authorization: basic('alice') },
  });
  const { redis } = (await response.json()) as {
    redis: { state: string; purges_owed: number };
  };
  return redis;
}

/** The first answer for which Redis was there in time: a slow machine may miss its deadlines. */
export function askKnown(gateway: TestGateway, query: Question = {}): Promise<Answer> {
  return until(
    () => ask(gateway, query),
    ({ cache }) => !cache.startsWith('fwd=bypass'),
  );
}

/** Asks until the cache answers, and collects all answers on the way. */
export async function untilHit(gateway: TestGateway, query: Question = {}): Promise<Answer[]> {
  const answers: Answer[] = [];
  await until(
    async () => {
      const answer = await ask(gateway, query);
      answers.push(answer);
      return answer;
    },
    ({ cache }) => cache.startsWith('hit'),
  );
  return answers;
}
