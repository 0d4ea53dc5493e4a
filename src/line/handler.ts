import type { IncomingMessage, ServerResponse } from 'node:http';
import type { RememberedLogin } from '../auth/verified-credentials.ts';
import type { Query } from '../cache/query.ts';
import type { StoredAnswer } from '../cache/stored-answer.ts';
import type { Principal } from '../common/principal.ts';
import type { ErrorShape } from '../http/answers.ts';
import { isPreflight } from '../http/cors.ts';
import { readBody } from '../http/read-body.ts';
import { announcedLength, clientControl } from '../http/request-head.ts';
import { readXmlaPath } from '../http/xmla-path.ts';
import type { TagReaders } from '../xml/start-tag.ts';
import { XmlaClient } from './client.ts';
import { createComparison } from './compare.ts';
import { createExplanation, createLook } from './explain.ts';
import { createMemo, type Handled, inSession, type Known, type KnownHead } from './memo.ts';
import type { LineOptions } from './options.ts';
import { createPass } from './pass.ts';
import { createQueryOf } from './query.ts';
import { createKeepAlive, enterSession, judge } from './session-step.ts';
import {
  type AskedPath,
  type Destination,
  checkHead,
  checkRequest,
  createOwnTurns,
  destinationOf,
  errorShape,
  type OwnTurn,
  understand,
} from './understand.ts';
import { createWarmLine } from './warm.ts';
import { noteWay } from './ways.ts';

const asIs = (error: unknown) => error;

export type XmlaHandler = ReturnType<typeof createXmlaHandler>;

/** The story of a request below /mdx/xmla. Knows nothing of Express. */
export function createXmlaHandler(options: LineOptions) {
  const { sessions, cache, work, authenticator } = options;
  /** Keeps no name. */
  const looking = { ...options, names: { ...options.names, admit: options.names.wouldAdmit } };
  const ownTurn = createOwnTurns();
  const readers: TagReaders = [];
  const memo = createMemo(options, ownTurn, readers);
  const queryOf = createQueryOf(options);
  const pass = createPass(options);
  const keepAlive = createKeepAlive(options);

  /** False when the request is for another handler. Its body must not have been read. */
  function handle(request: IncomingMessage, response: ServerResponse): boolean {
    const head = memo.headOf(request);
    const path = head ? undefined : readXmlaPath(request.url ?? '');
    if (head === undefined && path === undefined) return false;
    work.begin();
    if (path?.kind === 'clear-cache') {
      void options.clearCache(request, response, path.project).finally(work.end);
      return true;
    }
    const client = new XmlaClient(request, response, options, head);
    // By then the parser has been through everything that came together with the head.
    setImmediate(answer, client, head, path);
    return true;
  }

  /** The steps of one request, from its head to its answer. A hit that memory can answer awaits nothing. Never rejects. */
  async function answer(client: XmlaClient, head?: KnownHead, read?: AskedPath): Promise<void> {
    const { request, facts } = client;
    let shape: ErrorShape = 'soap-fault';
    /** A login that is only believed: it is checked before all but a hit, also before a refusal. */
    let believed: RememberedLogin | undefined;
    const check = async () => options.login(request, facts.id);
    try {
      const taken = client.takeBody(head !== undefined);
      let known = taken && memo.recognise(head, taken);
      if (known && replayKnown(known, client)) return;
      client.watch();
      if (known && taken && (await fetchKnown(known, client, taken.length))) return;
      if (client.isGone) return;

      // Of a head that is known it is that of a query.
      const path = read ?? (readXmlaPath(request.url ?? '') as AskedPath);
      shape = errorShape(path, request);
      const address = checkHead(request, path, shape);
      const { cors } = client.wishes;
      if (cors !== undefined && isPreflight(request)) return client.allow(cors.preflight);
      const login = head?.login ?? authenticator.remembered(request.headers.authorization ?? '');
      const isVerified = login?.counts() === true;
      if (!isVerified && login?.countsForHits()) believed = login;
      const principal = (isVerified ? login : believed)?.principal ?? (await check());
      facts.principal = principal.name;
      client.owner = principal.owner;
      // Not before: a client without a login could fill the labels of the metrics with invented names.
      facts.project = address.project ?? '';
      const isListed = cors?.preflight !== undefined;
      const ofPage = checkRequest(request, address, facts, isListed);
      const patience = () => client.patience();
      const room = options.account.request(principal.owner, patience, announcedLength(request));
      try {
        const { signal } = client;
        const body = await readBody(request, options.config.limits.body, { room, signal, taken });
        if (taken === undefined) known = memo.recognise(head, body);
        if (believed !== undefined) {
          const hit = await hitOf(client, address, believed, body, known, ofPage);
          if (hit && replayKnown(hit, client)) return;
          if (hit && (await fetchKnown(hit, client, body.length))) return;
          believed = undefined;
          await check();
        }
        await answerBody(client, address, principal, body, known, ofPage);
      } finally {
        room.release();
      }
    } catch (error) {
      const failure = believed ? await check().then(() => error, asIs) : error;
      client.fail(failure, shape);
    } finally {
      work.end();
    }
  }

  /**
   * Answers what was recognised, if nothing has changed since and memory holds the answer, or Redis has brought it.
   * False when it is still to be answered.
   */
  function replayKnown(known: Known, client: XmlaClient, brought?: StoredAnswer): boolean {
    const key = memo.keyOf(known);
    const recalled = key && cache.recall(key, brought);
    if (key === undefined || recalled === undefined) return false;
    const { login, project = '' } = known.head;
    client.facts.principal = login.principal.name;
    client.owner = login.principal.owner;
    client.facts.project = project;
    client.asks(known.asked);
    const { answer: stored, source, ttl, age } = recalled;
    const text = (compressed: boolean) => cache.textOf(key.key, stored, compressed);
    const { sessionId } = known;
    client.replay(stored, { outcome: { kind: 'hit', detail: source }, ttl, age, sessionId, text });
    if (!login.counts()) authenticator.checkBehind(client.request.headers.authorization ?? '');
    return true;
  }

  /** The same of what memory does not hold. Everything is judged once more behind the question to Redis. */
  async function fetchKnown(known: Known, client: XmlaClient, bytes: number): Promise<boolean> {
    const key = memo.keyOf(known);
    const brought = key && (await cache.bring(key, bytes));
    return brought !== undefined && !client.isGone && replayKnown(known, client, brought);
  }

  /**
   * Where the answer to a request would lie, as `replayKnown` wants it; undefined where it needs more than what lies there. By
   * the steps of `answerBody`, less all that keeps or changes something, or asks an engine. @throws as they do
   */
  async function hitOf(
    client: XmlaClient,
    address: Handled['address'],
    login: RememberedLogin,
    body: Buffer,
    known: Known | undefined,
    ofPage: boolean,
  ): Promise<Known | undefined> {
    const { headers, method } = client.request;
    const { principal } = login;
    const control = clientControl(headers, options.permissions.mayControlCache(principal));
    if (method !== 'POST' || control !== 'none') return undefined;
    const engine = options.engineOf(address.project);
    const destination = destinationOf(engine, address, principal, headers.authorization);
    const read = await readingOf(client, principal, destination, body, known);
    const { asked, judged } = await judge(read, destination, principal, looking, ofPage);
    if (judged === 'refuse' || judged.before !== 'nothing') return undefined;
    const { reason = asked.bypass, known: session } = judged;
    if (reason !== undefined) return undefined;
    const query = await queryOf({ asked, destination, principal, body, session, fresh: false });
    const key = typeof query === 'string' ? undefined : await cache.keyOf(query);
    if (typeof query === 'string' || key === undefined) return undefined;
    const head = { ...destination, login, project: address.project };
    const answer = { key, roles: query.roles, session: session?.record };
    return { head, asked: read, sessionId: session?.name.id, answer };
  }

  /** What a body asks; one that was recognised is not read. */
  async function readingOf(
    { request, signal }: XmlaClient,
    { owner }: Principal,
    destination: Destination,
    body: Buffer,
    known: Known | undefined,
  ) {
    if (known !== undefined) return inSession(known.asked, known.sessionId);
    const turnOfClient: OwnTurn = async (bytes) => {
      await ownTurn(bytes, owner);
      signal.throwIfAborted();
    };
    return understand(request.headers, body, destination, turnOfClient, readers);
  }

  async function answerBody(
    client: XmlaClient,
    address: Handled['address'],
    principal: Principal,
    body: Buffer,
    known: Known | undefined,
    ofPage: boolean,
  ): Promise<void> {
    const { headers, method } = client.request;
    const engine = options.engineOf(address.project);
    const destination = destinationOf(engine, address, principal, headers.authorization);
    const toEngine = { client, principal, destination };
    if (known === undefined) options.dropped.note(headers, engine.settings.headers);
    // What another method carries is read all the same: some engine may take it for a POST.
    if (method !== 'POST' && body.length === 0) return pass(toEngine, 'method');

    const isNew = known === undefined;
    const read = await readingOf(client, principal, destination, body, known);
    client.asks(read);
    const { asked, purges, judged } = await judge(read, destination, principal, options, ofPage);
    const handled = { ...toEngine, request: client.request, address, body, asked: read };
    if (isNew && read.bypass !== undefined) void memo.rememberPassing(handled);
    const step = await enterSession(asked, judged, sessions);
    const passing = { ...toEngine, asked, body, step, purges };
    const control = clientControl(headers, options.permissions.mayControlCache(principal));
    const unwanted = control === 'no-store' ? control : undefined;
    const bypass = method === 'POST' ? (step.reason ?? asked.bypass ?? unwanted) : 'method';
    if (bypass !== undefined) return pass(passing, bypass);

    const session = step.known;
    const fresh = control === 'no-cache';
    const query = await queryOf({ ...toEngine, asked, body, session, fresh });
    if (typeof query === 'string') return pass(passing, query);
    const addressee = { ...destination.addressee, named: asked.namedHeaders };
    const gone = session && (await keepAlive(session, { ...destination, addressee }, client));
    if (gone !== undefined) {
      const outcome = { kind: 'bypass', detail: 'unknown-session' } as const;
      client.open(gone.head, outcome, gone.body.length);
      return client.end(gone.body.length, gone.body);
    }
    noteWay(options, handled, principal.name, query, session);
    const told: Query = {
      ...query,
      found(key) {
        if (control === 'none') void memo.rememberAnswer(handled, query, session, key);
      },
    };
    return cache.answer(told, client);
  }

  const look = createLook(options, queryOf);
  return {
    handle,
    explain: createExplanation(options, look),
    compare: createComparison(options, look),
    warm: createWarmLine(options, queryOf),
  };
}
