import { type Clock, shareFor, inTime as settledIn } from '../common/clock.ts';
import { messageOf } from '../common/errors.ts';
import type { Emit, ReplicaState } from '../common/events.ts';
import { basicAuthorization } from '../common/principal.ts';
import type { Away } from './away.ts';
import type { EngineConfig } from './config.ts';
import { reasonOf, Silence } from '../proxy/upstream.ts';
import { askDiscover, inTime, soapContent } from './own-questions.ts';
import { createReplicas, tellsProject } from './replicas.ts';

const HOLDS_MS = 10_000;
/** Limit for an answer, beside `engine.timeout`. */
const LONGEST_MS = 5_000;
const FIRST_MS = 750;
const up = (why: string) => ({ state: 'up', why }) as const;
const down = (why: string) => ({ state: 'down', why }) as const;

/**
 * Asks a replica for its data sources, past admission, cache and sessions, with the login of
 * `engine.service` or none. @param options.project without one only the port is tried
 */
export function createProbe(options: {
  config: Pick<EngineConfig, 'ca' | 'certificate' | 'key' | 'timeout' | 'service'>;
  url: string;
  project: string | undefined;
  clock: Pick<Clock, 'now' | 'wall'>;
  emit: Emit;
  last?: ReplicaState | undefined;
  away?: Away;
}) {
  const { config, url, project, clock, emit, away } = options;
  let made: ReturnType<typeof createReplicas> | undefined;
  /** With thousands of probes, to make them all would hold up a reload. */
  const replicas = () => (made ??= createReplicas({ ...config, url: [url] }, clock, false, away));
  const authorization = config.service && basicAuthorization(config.service);
  const limit = Math.min(config.timeout, LONGEST_MS);
  const closing = new AbortController();
  let { last } = options;

  async function tryPort() {
    const isOpen = await replicas().all[0]?.upstream.reachable();
    return isOpen
      ? up('it takes connections; no project is configured with which XMLA could be tried')
      : down('it takes no connections');
  }

  async function askXmla() {
    try {
      const { head, body } = await inTime(limit, [closing.signal], (signal) =>
        askDiscover(replicas(), project, authorization, signal),
      );
      const { status } = head;
      // A wrong path would not ask for a login.
      if (status === 401 || status === 407) return up(`it wants a login (status ${status})`);
      return soapContent(head, body)
        ? up('it answers as XMLA')
        : down(`it answered with status ${status} and no SOAP envelope; is engine.url right?`);
    } catch (error) {
      return down(describeFailure(error));
    }
  }

  const ask = shareFor(HOLDS_MS, clock, async (): Promise<ReplicaState> => {
    const found = await (tellsProject(url) && project === undefined ? tryPort() : askXmla());
    const isNews = last?.state !== found.state || last.why !== found.why;
    last = { url, ...found };
    if (isNews && !closing.signal.aborted) emit({ type: 'engine-state', ...last });
    return last;
  });

  return {
    /** Falls back on the last state. @param patient waits up to five seconds. Never rejects */
    async state(patient: boolean): Promise<ReplicaState> {
      if (patient) return ask();
      const first = settledIn(ask(), FIRST_MS, () => new Silence());
      return first.catch(() => last ?? { url, ...down('it has not answered yet') });
    },
    last: () => last,
    close(): void {
      closing.abort();
      made?.close();
    },
  };
}

/** Why a server gave no answer, without full stop. @param section as in {@link reasonOf} */
export function describeFailure(error: unknown, section?: Parameters<typeof reasonOf>[1]): string {
  const cause = reasonOf(error, section);
  if (cause instanceof Silence) return 'it did not answer in time';
  return messageOf(cause).replaceAll(/\s+/g, ' ').trim();
}
