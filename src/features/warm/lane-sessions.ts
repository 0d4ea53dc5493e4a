import { tellSessions } from '../../cache/answer-sessions.ts';
import { type Examine, noteBegun } from '../../line/session-step.ts';
import type { Destination, UnderstoodRequest } from '../../line/understand.ts';
import { extendProfile } from '../../sessions/digests.ts';
import type { Line } from '../feature.ts';
import type { Beginning, KeptRequest, Way } from './candidates.ts';
import type { Slots } from './slots.ts';

/** Longest time for the end of a session: nothing depends on it. */
const ENDING_MS = 2_000;

interface Begun {
  readonly id: string;
  readonly destination: Destination;
  readonly asked: UnderstoodRequest;
  readonly replica: string;
}

/** Reads a kept request under the configuration of its lane. */
type Read = (
  request: KeptRequest,
  headers: KeptRequest['headers'],
  body: Buffer,
) => Promise<Awaited<ReturnType<Examine>> & { readonly destination: Destination }>;

/** Sessions of a lane, begun as those of users were. */
export function createLaneSessions(
  { sessions }: Pick<Line, 'sessions'>,
  slots: Slots,
  read: Read,
  beginnings: readonly Beginning[],
  cut: AbortSignal,
) {
  /** Ids by where the sessions live and what they were begun with. */
  const byName = new Map<string, Promise<string | undefined>>();
  const toEnd: Begun[] = [];

  /** Undefined where the request would not begin a session that is clean. */
  async function begin(beginning: KeptRequest): Promise<string | undefined> {
    const body = Buffer.from(beginning.body, 'latin1');
    const { asked, step, destination } = await read(beginning, beginning.headers, body);
    const { request, forwarded, leavesState } = asked;
    const begins = step !== 'refuse' && step.begins && !leavesState;
    if (!begins || request === undefined || forwarded === undefined) return undefined;
    const { engine, addressee, user: principal } = destination;
    const replica = engine.replicaFor(undefined);
    const ids: string[] = [];
    await slots.within(cut, async ({ gone }) => {
      const answer = await engine.ask({ ...addressee, replica }, forwarded, body, gone.signal);
      const tell = tellSessions(answer.head, async (id, before) => {
        // Also one whose answer is given up.
        toEnd.push({ id, destination, asked, replica });
        const begun = { principal, asked, replica, leftState: false };
        await noteBegun(sessions, destination, id, before, begun);
        ids.push(id);
      });
      const isBegun = answer.head.status === 200;
      for await (const piece of answer.body) if (isBegun) await tell(piece);
      if (isBegun) await tell();
    });
    return ids[0];
  }

  return {
    /** Id of the session in which a query of this way is asked; undefined where there is none. */
    async idFor(way: Way): Promise<string | undefined> {
      const { project, session } = way;
      if (session === null) return undefined;
      const { profile, catalog } = session;
      const fits = (one: Beginning) =>
        one.profile === profile ||
        (catalog !== null && extendProfile(one.profile, catalog) === profile);
      const beginning = beginnings.find(fits);
      const id = byName.get(nameOf(way)) ?? (beginning && begin({ ...beginning, project }));
      if (id === undefined) return undefined;
      byName.set(nameOf(way), id);
      // The next query tries again.
      id.catch(() => byName.delete(nameOf(way)));
      return id;
    },
    /** The next query of this way gets another session. */
    forget: (way: Way) => void byName.delete(nameOf(way)),
    /** Ends all. Never rejects. */
    async close(): Promise<void> {
      const until = AbortSignal.timeout(ENDING_MS);
      for (const { id, destination, asked, replica } of toEnd) {
        const { engine, addressee, endpoint } = destination;
        const to = { ...addressee, replica, named: asked.namedHeaders };
        const end = () => engine.touch(to, id, until, 'EndSession');
        await slots.within(until, end).catch(() => {});
        await sessions.end({ endpoint, id });
      }
    },
  };
}

/** One for each session of a lane. */
const nameOf = ({ project, session }: Way) => JSON.stringify([project, session?.profile]);
