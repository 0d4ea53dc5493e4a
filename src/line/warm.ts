import type { QueryCache } from '../cache/cache.ts';
import type { MemoryTier } from '../cache/memory-tier.ts';
import { tellSessions } from '../cache/answer-sessions.ts';
import type { Client, Query } from '../cache/query.ts';
import type { Clock } from '../common/clock.ts';
import { GatewayError } from '../common/errors.ts';
import { foldObjectName } from '../common/fold-case.ts';
import { principalOf } from '../common/principal.ts';
import type { Admission } from '../engine/admission.ts';
import { inXml } from '../engine/own-questions.ts';
import { extendProfile } from '../sessions/digests.ts';
import type { Sessions } from '../sessions/sessions.ts';
import type { Beginning, KeptRequest, Way } from '../cache/warm/candidates.ts';
import type { AskedWay, Job, WarmLine } from '../cache/warm/warm.ts';
import { ofNoClient, withoutReader } from './compare.ts';
import type { QueryOf, SharedQuery } from './query.ts';
import { enterSession, type Examine, noteBegun } from './session-step.ts';
import {
  type Destination,
  destinationOf,
  type EngineOf,
  understand,
  type UnderstoodRequest,
} from './understand.ts';

/** So long the end of a session may take (ms): nothing depends on it. */
const ENDING = 2_000;

const OVERTAKEN = new GatewayError('client-gone', 'A user needed the place at the engine.');

/** A place at the engine for one request, which a user may need meanwhile. */
class Place {
  /** Aborted when the request is given up, as when its client goes away. */
  readonly gone = new AbortController();
  /** Ends the stay; undefined once it was given up. */
  leave: (() => void) | undefined;
  /** Aborted when it was given up and no user has joined. */
  unwanted: AbortSignal | undefined;
  isOvertaken = false;

  /** As of {@link Overtake}. */
  overtake(): boolean {
    this.isOvertaken = true;
    this.gone.abort(OVERTAKEN);
    const isGiven = this.unwanted?.aborted ?? true;
    if (isGiven) this.leave = undefined;
    return isGiven;
  }
}

/** Asks as an ordinary request is asked, for no user: the steps of the handler, with another client. */
export function createWarmLine(parts: {
  readonly engineOf: EngineOf;
  readonly examine: Examine;
  readonly queryOf: QueryOf;
  readonly sessions: Sessions;
  readonly cache: Pick<QueryCache, 'answer' | 'entryOf' | 'fetch'>;
  readonly admitBackground: Admission['admitBackground'];
  readonly hasRoom: MemoryTier['hasRoom'];
  readonly clock: Pick<Clock, 'now'>;
  /** Told of what is under way. */
  readonly work: Readonly<Record<'begin' | 'end', () => void>>;
}): WarmLine {
  const { engineOf, examine, queryOf, sessions, cache, clock, work } = parts;

  const open: WarmLine['open'] = ({ as, cut, beginnings, since, onDemand }) => {
    const { principal, authorization, isUser } = as;
    /** Sessions of this lane, by where they live and what they were begun with. */
    const begun = new Map<string, Promise<string | undefined>>();
    const toEnd: {
      id: string;
      destination: Destination;
      asked: UnderstoodRequest;
      replica: string;
    }[] = [];
    let place: Place | undefined;
    // What it uses of this configuration is closed after it.
    work.begin();

    function destinationFor({ project, query }: KeptRequest): Destination {
      const address = { project: project ?? undefined, search: query.join('&') };
      const chosen = engineOf(address.project);
      const own = destinationOf(chosen, address, principal, authorization);
      return { ...own, addressee: { ...own.addressee, admitted: () => place?.leave } };
    }

    /** In a place at the engine. @throws what `use` throws, and the reason of the signal */
    async function withPlace<T>(until: AbortSignal, use: (own: Place) => Promise<T>): Promise<T> {
      const own = new Place();
      const end = () => own.gone.abort(until.reason);
      until.addEventListener('abort', end, { once: true });
      try {
        const leave = await parts.admitBackground(() => own.overtake(), until);
        own.leave = leave;
        place = own;
        return await use(own).finally(leave);
      } finally {
        until.removeEventListener('abort', end);
        place = undefined;
      }
    }

    async function read(request: KeptRequest, headers: Headers, body: Buffer) {
      const destination = destinationFor(request);
      const own = await understand(headers, body, destination);
      return { destination, body, ...(await examine(own, destination, principal)) };
    }

    /** Undefined where it would not begin a session that is clean. */
    async function begin(beginning: KeptRequest) {
      const bytes = Buffer.from(beginning.body, 'latin1');
      const { asked, step, destination } = await read(beginning, beginning.headers, bytes);
      const { request, forwarded, leavesState } = asked;
      const begins = step !== 'refuse' && step.begins && !leavesState;
      if (!begins || request === undefined || forwarded === undefined) return undefined;
      const { engine, addressee } = destination;
      const replica = engine.replicaFor(undefined);
      const facts = { principal: destination.user, asked, replica, leftState: false };
      const ids: string[] = [];
      await withPlace(cut, async ({ gone }) => {
        const to = { ...addressee, replica };
        const answer = await engine.ask(to, forwarded, bytes, gone.signal);
        const tell = tellSessions(answer.head, async (id, before) => {
          // Also one whose answer is given up.
          toEnd.push({ id, destination, asked, replica });
          await noteBegun(sessions, destination, id, before, facts);
          ids.push(id);
        });
        const isBegun = answer.head.status === 200;
        for await (const piece of answer.body) if (isBegun) await tell(piece);
        if (isBegun) await tell();
      });
      return ids[0];
    }

    async function sessionFor(way: Way) {
      const { project, session } = way;
      if (session === null) return undefined;
      const { profile, catalog } = session;
      const name = nameOf(way);
      const fits = (one: Beginning) =>
        one.profile === profile ||
        (catalog !== null && extendProfile(one.profile, catalog) === profile);
      const beginning = beginnings.find(fits);
      const known = begun.get(name) ?? (beginning && begin({ ...beginning, project }));
      if (known === undefined) return undefined;
      begun.set(name, known);
      // It is tried again for the next one.
      known.catch(() => begun.delete(name));
      return known;
    }

    /** Fills the cache with the answer to one query, unless it is there. */
    async function fill(query: SharedQuery, bytes: number): Promise<AskedWay> {
      const before = await cache.entryOf(query);
      if (before === undefined) return failed('epochs-unknown');
      if (before.entry !== undefined) return { result: 'there', ms: 0 };
      if (!parts.hasRoom(bytes, since)) return skipped('memory');
      return withPlace(cut, async (own) => {
        let began: number | undefined;
        let found: AskedWay | undefined;
        const client: Client = {
          ...withoutReader(own.gone.signal),
          notStored(reason) {
            found ??= { result: 'not-stored', reason, ms: 0 };
            // The rest of the answer helps no user.
            own.gone.abort(OVERTAKEN);
          },
          fail: (error) =>
            void (found ??= failed(error instanceof GatewayError ? error.reason : 'internal')),
        };
        const background: Query = {
          ...query,
          background: true,
          // No client is shown a session that the engine begins by itself.
          began: async () => {},
          ask(ends, unwanted = () => own.gone.signal) {
            began = clock.now();
            const ending = unwanted();
            own.unwanted = ending;
            return query.ask(AbortSignal.any([ends, ending]), () => ending);
          },
        };
        await cache.answer(background, client);
        const ms = began === undefined ? 0 : clock.now() - began;
        const now = await cache.entryOf(query);
        if (now?.entry !== undefined) return { result: 'stored', ms };
        if (own.isOvertaken || cut.aborted) return { result: 'overtaken', ms };
        return { ...(found ?? failed('epochs-unknown')), ms };
      });
    }

    /** The queries of a way: one for each identity that may be answered from what is filled. */
    async function queriesOf(source: Source, users: readonly string[]) {
      const query = await queryOf({ ...source, principal });
      if (typeof query === 'string') return query;
      if (isUser || query.share === 'everyone') return [query];
      if (query.share === 'user') return [];
      const all = users.map(async (name) => {
        const own = await queryOf({ ...source, principal: principalOf(name) });
        return typeof own === 'string' || own.roles === undefined
          ? []
          : [[own.roles, own] as const];
      });
      return [...new Map((await Promise.all(all)).flat()).values()];
    }

    async function onlyOnDemand({ destination, asked }: Asking, catalogs: readonly string[]) {
      const { settings, engine, place: where } = destination;
      const addressee = { ...destination.addressee, named: asked.namedHeaders };
      if (settings.kind === 'kylin' || catalogs.length === 0) return false;
      const ask = () =>
        withPlace(cut, ({ gone }) => engine.onDemand(addressee, gone.signal)).catch((error) => {
          if (isGone(error)) throw error;
          return [];
        });
      const known = onDemand.get(where) ?? ask();
      onDemand.set(where, known);
      known.catch(() => onDemand.delete(where));
      const names = new Set((await known).map(foldObjectName));
      return catalogs.some((name) => names.has(foldObjectName(name)));
    }

    async function askWay({ candidate, way, done }: Job): Promise<readonly AskedWay[]> {
      const id = await sessionFor(way);
      if (way.session !== null && id === undefined) return [skipped('session-differs')];
      const { headers, body } = inSession(way, id);
      let seen = await read(way, headers, body);
      const { settings, addressee } = seen.destination;
      if (settings.login === 'forward' && addressee.authorization === undefined)
        return [skipped('login-forward')];
      if (settings.kind === 'kylin' && candidate.subject === 'DISCOVER_PROPERTIES')
        return [skipped('discover-type')];
      if (await onlyOnDemand(seen, candidate.catalogs)) return [skipped('refresh-policy')];
      if (seen.step !== 'refuse' && seen.step.before === 'take-catalog') {
        await enterSession(seen.asked, seen.step, sessions);
        // As of any session, the answer that moves it is not kept.
        const session = seen.step.known;
        const moving = await queryOf({ ...seen, principal, session, fresh: false });
        if (typeof moving === 'string') return [skipped(moving)];
        await withPlace(cut, ({ gone: { signal } }) =>
          cache.fetch(ofNoClient(moving, signal), withoutReader(signal), async () => {}),
        );
        seen = await read(way, headers, body);
      }
      const { asked, step } = seen;
      // Redis may have lost the session, or all sessions count as changed: the next one gets another.
      const isLost = step === 'refuse' || /^(?:unknown|dirty)-/.test(step.reason ?? '');
      if (way.session !== null && isLost) begun.delete(nameOf(way));
      if (step === 'refuse' || step.before !== 'nothing') return [skipped('session-differs')];
      const reason = asked.bypass ?? step.reason;
      if (reason !== undefined) return [skipped(reason)];
      const source = { ...seen, session: step.known, fresh: false };
      const queries = await queriesOf(source, candidate.users);
      if (typeof queries === 'string') return [skipped(queries)];
      if (queries.length === 0) return [skipped('of-one-user')];
      const told: AskedWay[] = [];
      for (const query of queries) {
        const { identity, session: part } = query.parts;
        if (done.has(identity)) continue;
        const isSame = (part ?? '') === way.part;
        const one = isSame ? await fill(query, candidate.bytes) : skipped('session-differs');
        if (one.result !== 'overtaken') done.add(identity);
        // The engine may know the session no more: the next one gets another.
        if (one.reason === 'fault' || one.reason === 'session-changed') begun.delete(nameOf(way));
        told.push(one);
      }
      return told;
    }

    return {
      async ask(job) {
        try {
          return await askWay(job);
        } catch (error) {
          if (!(error instanceof GatewayError)) throw error;
          if (isGone(error)) return [{ result: 'overtaken', ms: 0 }];
          return [OF_ENGINE.test(error.reason) ? failed(error.reason) : skipped(error.reason)];
        }
      },
      async close() {
        const until = AbortSignal.timeout(ENDING);
        for (const { id, destination, asked, replica } of toEnd) {
          const { engine, addressee, place: where } = destination;
          const to = { ...addressee, replica, named: asked.namedHeaders };
          const end = () => engine.touch(to, id, until, 'EndSession');
          await withPlace(until, end).catch(() => {});
          await sessions.end({ place: where, id });
        }
        work.end();
      },
    };
  };

  const forwards = (project: string) =>
    engineOf(project === '' ? undefined : project).settings.login === 'forward';
  return { open, forwards };
}

type Headers = Readonly<Record<string, string>>;
type Asking = { readonly destination: Destination; readonly asked: UnderstoodRequest };
/** One for each session of a lane. */
const nameOf = ({ project, session }: Way) => JSON.stringify([project, session?.profile]);
type Source = Omit<Parameters<QueryOf>[0], 'principal'>;

const OF_ENGINE = /^(?:engine-|overloaded)/;
const isGone = (error: unknown) => error instanceof GatewayError && error.reason === 'client-gone';
const failed = (reason: string) => ({ result: 'failed', reason, ms: 0 }) as const;
const skipped = (reason: string) => ({ result: 'skipped', reason, ms: 0 }) as const;

/** With the id of a session where that of another one stood. */
function inSession({ headers, body, session }: Way, id = '') {
  const text = Buffer.from(body, 'latin1');
  const at = session?.at ?? null;
  const pieces =
    at === null ? [text] : [text.subarray(0, at), Buffer.from(inXml(id)), text.subarray(at)];
  const own = session?.byHeader ? { ...headers, 'x-as-sessionid': id } : headers;
  return { headers: own, body: Buffer.concat(pieces) };
}
