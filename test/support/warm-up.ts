import type { GatewayEvent } from '../../src/common/events.ts';
import type { WarmRun } from '../../src/features/warm/events.ts';
import { send, until } from './http-client.ts';
import { basic, type TestGateway } from './test-gateway.ts';

/** The runs that have ended, in this order. */
export const endedRuns = (events: readonly GatewayEvent[]): readonly WarmRun[] =>
  events.flatMap((one) => (one.type === 'warm-run' && one.state === 'ended' ? [one] : []));

/** Resolves to the next run that ends after what `begin` does. */
export async function nextRun(
  gateway: TestGateway,
  begin: () => Promise<unknown>,
  among = [gateway],
): Promise<WarmRun> {
  const all = () => among.flatMap(({ events }) => endedRuns(events));
  const before = new Set(all().map(({ id }) => id));
  const next = () => all().find(({ id }) => !before.has(id));
  await begin();
  await until(() => next() !== undefined);
  return next() as WarmRun;
}

/** What became of its queries, less moments and names. */
export const figuresOf = (run: WarmRun) => ({
  planned: run.planned,
  stored: run.stored,
  there: run.there,
  not_stored: run.not_stored,
  failed: run.failed,
  skipped: run.skipped,
  cut: run.cut,
});

/** @throws Error where it is not answered 200 */
export async function purge({ url }: Pick<TestGateway, 'url'>, path = '/mdx/xmla/clearCache') {
  const { status, text } = await send(url, { path, headers: { authorization: basic('ADMIN') } });
  if (status !== 200) throw new Error(`the purge was answered ${status}: ${text}`);
}

export async function warmNow(
  { url }: Pick<TestGateway, 'url'>,
  user = 'ADMIN',
  search = '',
  body = '',
) {
  const length = String(Buffer.byteLength(body));
  const headers = { authorization: basic(user), 'content-length': length };
  const path = `/admin/warm${search}`;
  return send(url, { method: 'POST', path, headers, body: Buffer.from(body) });
}

export async function readWarmUp({ url }: Pick<TestGateway, 'url'>, user = 'ADMIN') {
  const { text } = await send(url, {
    path: '/admin/warm',
    headers: { authorization: basic(user) },
  });
  return JSON.parse(text) as {
    readonly mode: string;
    readonly as: string;
    readonly complete: boolean;
    readonly waiting: object | null;
    readonly run: WarmRun | null;
    readonly runs: readonly WarmRun[];
    readonly candidates: readonly { readonly digest: string }[];
  };
}

const MOST_TRIES = 5;

/**
 * On a busy machine the roles of a user may come too late for a query, which is then cached by user: then all is tried again.
 * @param work begins with a gateway of its own
 */
export async function withRolesInTime(
  gateway: () => TestGateway,
  close: () => Promise<void>,
  work: () => Promise<void>,
): Promise<void> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await work();
    } catch (error) {
      const isLate = gateway().events.some(
        (event) => event.type === 'warning' && event.message.startsWith('roles cannot be read'),
      );
      if (!isLate || tries === MOST_TRIES) throw error;
      await close();
    }
  }
}
