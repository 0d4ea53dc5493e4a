import { tellSessions } from '../../cache/answer-sessions.ts';
import type { Clock } from '../../common/clock.ts';
import { GatewayError } from '../../common/errors.ts';
import { foldObjectName } from '../../common/fold-case.ts';
import { type Principal, principalOf } from '../../common/principal.ts';
import { inXml } from '../../engine/own-questions.ts';
import { circumstancesOf } from '../../line/circumstances.ts';
import { ofNoClient, withoutReader } from '../../line/no-client.ts';
import type { QueryOf } from '../../line/query.ts';
import { enterSession, type Examine, noteBegun } from '../../line/session-step.ts';
import { type Destination, destinationOf, understand } from '../../line/understand.ts';
import { extendProfile } from '../../sessions/digests.ts';
import type { Line } from '../feature.ts';
import type { Beginning, Candidate, KeptRequest, Way } from './candidates.ts';
import {
  type AskedWay,
  createSlots,
  type EndingEntry,
  failed,
  fill,
  renew,
  skipped,
  type Slots,
} from './fill.ts';

/** In whose name a run asks. The login is kept by the run alone. */
export interface WarmUser {
  readonly principal: Principal;
  readonly authorization: string | undefined;
  /** A user's own entries may be filled. */
  readonly isUser: boolean;
}

export interface Job {
  readonly candidate: Candidate;
  readonly way: Way;
  readonly done: Set<string>;
}

interface LanesOfRun {
  readonly as: WarmUser;
  /** Ends what is under way, with a GatewayError `client-gone`. */
  readonly cut: AbortSignal;
  readonly beginnings: readonly Beginning[];
  /** Entries used since then stay (monotonic, ms). */
  readonly since: number;
  /** Catalogs that are not asked ahead, by endpoint. */
  readonly onDemand: Map<string, Promise<readonly string[]>>;
}

export interface WarmLine {
  open(ofRun: LanesOfRun): Pick<Lane, 'ask' | 'close'>;
  /** True where the engine of a project gets the login that asks. */
  forwards(project: string): boolean;
}

export const createWarmLine = (line: Line, clock: Pick<Clock, 'now'>) => ({
  ...line,
  open: (ofRun: LanesOfRun) => openLane(line, clock, ofRun),
  forwards: (project: string) => line.engineOf(project || undefined).settings.login === 'forward',
});

export type Lane = ReturnType<typeof openLane>;

/** Asks one query after the other as a request is asked, for no user, in sessions of its own. */
function openLane(line: Line, clock: Pick<Clock, 'now'>, ofRun: LanesOfRun) {
  const { as, cut, beginnings, since } = ofRun;
  const { principal } = as;
  const { engineOf, examine, cache, sessions, work } = line;
  const slots = createSlots(line.admitBackground);
  const own = createLaneSessions(line, slots, read, beginnings, cut);
  const filling = { ...line, clock, slots, cut, since };
  // The engines of this configuration are closed after it.
  work.begin();

  async function read({ project, query }: KeptRequest, headers: Headers, body: Buffer) {
    const address = { project: project ?? undefined, search: query.join('&') };
    const engine = engineOf(address.project);
    const to = destinationOf(engine, address, principal, as.authorization);
    const destination = { ...to, addressee: { ...to.addressee, admitted: slots.leave } };
    const asked = await understand(circumstancesOf(headers, destination), body);
    return { destination, body, ...(await examine(asked, destination, principal)) };
  }

  /** Moves a session to the catalog that a request names. @returns why it cannot */
  async function moveSession(seen: Awaited<ReturnType<typeof read>>) {
    const { known } = await enterSession(seen.asked, seen.step, sessions);
    const moving = await line.queryOf({ ...seen, principal, session: known, fresh: false });
    if (typeof moving === 'string') return moving;
    // The answer that moves a session is not kept.
    await slots.within(cut, ({ gone: { signal } }) =>
      cache.fetch(ofNoClient(moving, signal), withoutReader(signal), async () => {}),
    );
    return undefined;
  }

  /** Walks as far as a query is made. @returns why none is */
  async function walk(way: Way, subject: string, catalogs: readonly string[]) {
    const id = await own.idFor(way);
    if (way.session !== null && id === undefined) return 'session-differs';
    const { headers, body } = inSession(way, id);
    let seen = await read(way, headers, body);
    const unfit = whyUnfit(seen.destination, subject);
    if (unfit !== undefined) return unfit;
    if (await isOnlyOnDemand(seen, catalogs, slots, ofRun)) return 'refresh-policy';
    if (seen.step !== 'refuse' && seen.step.before === 'take-catalog') {
      const why = await moveSession(seen);
      if (why !== undefined) return why;
      seen = await read(way, headers, body);
    }
    const { asked, step } = seen;
    // Redis may have lost the session, or every session counts as changed.
    const isLost = step === 'refuse' || /^(?:unknown|dirty)-/.test(step.reason ?? '');
    if (way.session !== null && isLost) own.forget(way);
    if (step === 'refuse' || step.before !== 'nothing') return 'session-differs';
    return asked.bypass ?? step.reason ?? { ...seen, session: step.known, fresh: false };
  }

  async function askWay({ candidate, way, done }: Job): Promise<readonly AskedWay[]> {
    const source = await walk(way, candidate.subject, candidate.catalogs);
    if (typeof source === 'string') return [skipped(source)];
    const queries = await queriesOf(line.queryOf, source, as, candidate.users);
    if (typeof queries === 'string') return [skipped(queries)];
    if (queries.length === 0) return [skipped('of-one-user')];
    const told: AskedWay[] = [];
    for (const query of queries) {
      const { identity, session: part } = query.parts;
      if (done.has(identity)) continue;
      const isSame = (part ?? '') === way.part;
      const one = isSame ? await fill(query, candidate.bytes, filling) : skipped('session-differs');
      if (one.result !== 'overtaken') done.add(identity);
      // The engine may no longer know the session.
      if (one.reason === 'fault' || one.reason === 'session-changed') own.forget(way);
      told.push(one);
    }
    return told;
  }

  return {
    /** @returns a result for each identity. Rejects for a mistake of this program only */
    ask: (job: Job): Promise<readonly AskedWay[]> =>
      askWay(job).catch((error) => [resultOf(error)]),
    /** Asks for one entry anew, for a user: policies of catalogs do not count. Rejects likewise. */
    async renew({ way, subject, ...entry }: EndingEntry): Promise<AskedWay> {
      const source = await walk(way, subject, []);
      const query =
        typeof source === 'string' ? source : await line.queryOf({ ...source, principal });
      return typeof query === 'string' ? skipped(query) : renew(query, entry, filling);
    },
    close: () => own.close().then(work.end),
  };
}

type Headers = KeptRequest['headers'];

/** @returns why no run asks a query of this engine */
function whyUnfit({ settings, addressee }: Destination, subject: string) {
  const isForwarded = settings.login === 'forward';
  if (isForwarded && addressee.authorization === undefined) return 'login-forward';
  const isVolatile = settings.kind === 'kylin' && subject === 'DISCOVER_PROPERTIES';
  return isVolatile ? 'discover-type' : undefined;
}

/** Asks whether the engine wants a catalog's data asked for by users only. */
async function isOnlyOnDemand(
  { destination, asked }: Awaited<ReturnType<Read>>,
  catalogs: readonly string[],
  slots: Slots,
  { cut, onDemand }: LanesOfRun,
): Promise<boolean> {
  const { settings, engine, endpoint } = destination;
  const addressee = { ...destination.addressee, named: asked.namedHeaders };
  if (settings.kind === 'kylin' || catalogs.length === 0) return false;
  const ask = () =>
    slots
      .within(cut, ({ gone }) => engine.onDemand(addressee, gone.signal))
      .catch((error: unknown) => {
        if (isGone(error)) throw error;
        return [];
      });
  const known = onDemand.get(endpoint) ?? ask();
  onDemand.set(endpoint, known);
  known.catch(() => onDemand.delete(endpoint));
  const names = new Set((await known).map(foldObjectName));
  return catalogs.some((name) => names.has(foldObjectName(name)));
}

/** Makes a query for each identity that may be answered from what is filled. */
async function queriesOf(
  queryOf: QueryOf,
  source: Omit<Parameters<QueryOf>[0], 'principal'>,
  { principal, isUser }: WarmUser,
  users: readonly string[],
) {
  const query = await queryOf({ ...source, principal });
  if (typeof query === 'string') return query;
  if (isUser || query.share === 'everyone') return [query];
  if (query.share === 'user') return [];
  const all = users.map(async (name) => {
    const own = await queryOf({ ...source, principal: principalOf(name) });
    return typeof own === 'string' || own.roles === undefined ? [] : [[own.roles, own] as const];
  });
  return [...new Map((await Promise.all(all)).flat()).values()];
}

const OF_ENGINE = /^(?:engine-|overloaded)/;
const isGone = (error: unknown) => error instanceof GatewayError && error.reason === 'client-gone';

/** @throws the error where it is a mistake of this program */
export function resultOf(error: unknown): AskedWay {
  if (!(error instanceof GatewayError)) throw error;
  if (isGone(error)) return { result: 'overtaken', ms: 0 };
  return OF_ENGINE.test(error.reason) ? failed(error.reason) : skipped(error.reason);
}

function inSession({ headers, body, session }: Way, id = '') {
  const text = Buffer.from(body, 'latin1');
  const at = session?.at ?? null;
  const pieces =
    at === null ? [text] : [text.subarray(0, at), Buffer.from(inXml(id)), text.subarray(at)];
  const own = session?.byHeader ? { ...headers, 'x-as-sessionid': id } : headers;
  return { headers: own, body: Buffer.concat(pieces) };
}

/** Longest time for the end of a session: nothing depends on it. */
const ENDING_MS = 2_000;

type Read = (
  request: KeptRequest,
  headers: Headers,
  body: Buffer,
) => Promise<Awaited<ReturnType<Examine>> & { readonly destination: Destination }>;

/** Sessions of a lane, begun as those of users were. */
function createLaneSessions(
  { sessions }: Pick<Line, 'sessions'>,
  slots: Slots,
  read: Read,
  beginnings: readonly Beginning[],
  cut: AbortSignal,
) {
  /** Ids by where the sessions live and what they were begun with. */
  const byName = new Map<string, Promise<string | undefined>>();
  const ends: ((until: AbortSignal) => Promise<void>)[] = [];

  /** @returns undefined where the request would not begin a clean session */
  async function begin(beginning: KeptRequest): Promise<string | undefined> {
    const body = Buffer.from(beginning.body, 'latin1');
    const { asked, step, destination } = await read(beginning, beginning.headers, body);
    const { request, forwarded, leavesState } = asked;
    const begins = step !== 'refuse' && step.begins && !leavesState;
    if (!begins || request === undefined || forwarded === undefined) return undefined;
    const { engine, addressee, endpoint, user: principal } = destination;
    const replica = engine.replicaFor(undefined);
    const ids: string[] = [];
    await slots.within(cut, async ({ gone }) => {
      const answer = await engine.ask({ ...addressee, replica }, forwarded, body, gone.signal);
      const tell = tellSessions(answer.head, async (id, before) => {
        // The session ends also where its answer is given up.
        ends.push(async (until) => {
          const to = { ...addressee, replica, named: asked.namedHeaders };
          const end = () => engine.touch(to, id, until, 'EndSession');
          await slots.within(until, end).catch(() => {});
          await sessions.end({ endpoint, id });
        });
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
    /** Finds or begins the session in which a query of this way is asked. */
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
    forget: (way: Way) => void byName.delete(nameOf(way)),
    /** Never rejects. */
    async close(): Promise<void> {
      const until = AbortSignal.timeout(ENDING_MS);
      for (const end of ends) await end(until);
    },
  };
}

const nameOf = ({ project, session }: Way) => JSON.stringify([project, session?.profile]);
