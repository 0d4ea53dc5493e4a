import type { PurgeRecord } from '../cache/purge/purge-log.ts';
import type { RedisFacts, ReplicaState } from '../common/events.ts';
import { percent } from '../common/words.ts';
import type { GatewayClient, Told } from './gateway-client.ts';

/** The body of GET /health/ready. */
interface Health {
  readonly engines: readonly ReplicaState[];
  readonly redis: RedisFacts & { readonly mode: string; readonly purges_owed: number };
  readonly storage: Readonly<Record<'driver' | 'state', string>>;
}

/** Asks one page after the other, so that a wrong password is one failed login. @throws Failure */
export async function status(client: GatewayClient): Promise<Told> {
  const ready = await client.ask('/health/ready');
  const { engines, redis, storage } = (ready.json ?? {}) as Partial<Health>;
  if (!Array.isArray(engines) || !redis || !storage) throw client.refusal(ready);
  const untold: Record<string, string> = {};

  /** Undefined where the user may not see the page, or it is unavailable. */
  async function page(name: string, path: string) {
    const answer = await client.ask(path);
    if (answer.status === 200) return answer;
    const refusal = client.refusal(answer);
    if (answer.status === 401 && client.user !== undefined) throw refusal;
    untold[name] = refusal.message;
    return undefined;
  }

  const metrics = await page('metrics', '/metrics');
  const purges = (await page('purges', '/admin/purges?limit=1'))?.json;
  const [latest = null] = (purges?.['purges'] ?? []) as readonly PurgeRecord[];
  const figures = metrics && readFigures(metrics.text);
  const isReady = ready.status === 200;
  const health = { engines: engines as readonly ReplicaState[], redis, storage };
  const value = { url: client.url, ready: isReady, ...figures, ...health };
  return {
    exit: isReady ? 0 : 3,
    value: { ...value, ...(purges && { latest_purge: latest }), not_told: untold },
    lines: [
      `${client.url}: ${isReady ? 'ready' : 'not ready'}`,
      ...healthInWords(health),
      ...(figures ? figuresInWords(figures) : []),
      ...(purges ? [`latest purge: ${latest ? purgeInWords(latest) : 'none'}`] : []),
      ...Object.entries(untold).map(([name, why]) => `not told: ${name}. ${why}`),
    ],
  };
}

/** Reads the text format of Prometheus. */
function readFigures(page: string) {
  const sum = (sample: string) =>
    [...page.matchAll(new RegExp(`^mdx_gateway_${sample}.*? (\\S+)$`, 'gm'))]
      .map(([, value]) => Number(value))
      .reduce((one, other) => one + other, 0);
  const answers = (outcome: string) => sum(`xmla_requests_total\\{(?:.*,)?outcome="${outcome}"`);
  const [hit, miss, bypass] = [answers('hit'), answers('miss'), answers('bypass')];
  const [entries, bytes] = [sum('memory_entries'), sum('memory_bytes')];
  return {
    version: /^mdx_gateway_build_info\{version="([^"]*)"/m.exec(page)?.[1] ?? '',
    memory: { entries, bytes, limit_bytes: sum('memory_limit_bytes') },
    answers: { hit, miss, bypass, gateway: answers('gateway') },
  };
}

function figuresInWords({ version, memory, answers }: ReturnType<typeof readFigures>): string[] {
  const { hit, miss, bypass, gateway } = answers;
  const rate = hit + miss === 0 ? '' : ` (${percent(hit / (hit + miss))} of queries)`;
  const [bytes, limit] = [memory.bytes, memory.limit_bytes].map((n) => (n / 2 ** 20).toFixed(1));
  return [
    `version: ${version}`,
    `memory: ${memory.entries} entries, ${bytes} of ${limit} MiB`,
    `answers since its start: ${hit} hits${rate}, ${miss} misses, ${bypass} past the cache, ${gateway} by the gateway itself`,
  ];
}

function healthInWords({ engines, redis, storage }: Health): string[] {
  const { state, mode, purges_owed: pending, conditions } = redis;
  return [
    ...engines.map((engine) => `engine ${engine.url}: ${engine.state}${because(engine)}`),
    `Redis: ${state}${state === 'up' ? ` (${mode})` : because(redis)}`,
    ...conditions.map((condition) => `Redis: ${condition}`),
    `storage ${storage.driver}: ${storage.state}`,
    `purges pending: ${pending === 0 ? 'none' : `${pending}; the gateway repeats them`}`,
  ];
}

const because = ({ why = '' }: { readonly why?: string | undefined }) =>
  why === '' ? '' : `: ${why}`;

const purgeInWords = ({ scope, principal, at, result }: PurgeRecord) =>
  `${typeof scope === 'string' ? scope : scope.project} by ${principal} at ${at}: ${result}`;
