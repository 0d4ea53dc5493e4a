import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Authenticator, Login, Permissions } from '../auth/authenticator.ts';
import type { RememberedLogin } from '../auth/verified-credentials.ts';
import type { QueryCache } from '../cache/cache.ts';
import type { Query } from '../cache/query.ts';
import type { BodyAccount } from '../common/body-account.ts';
import { asEngineFailure } from '../common/errors.ts';
import type { ErrorShape } from '../http/answers.ts';
import type { ClearCacheHandler } from '../http/clear-cache.ts';
import { isPreflight } from '../http/page-origins.ts';
import { readBody } from '../http/read-body.ts';
import { announcedLength, clientControl } from '../http/request-head.ts';
import { readXmlaPath } from '../http/xmla-path.ts';
import type { createClients, XmlaClient } from './client.ts';
import type { DroppedHeaders } from './dropped-headers.ts';
import type { createBelievedHit } from './believed-hit.ts';
import type { Arrived, KnownHead, Memo } from './memo.ts';
import type { createPass } from './pass.ts';
import type { Seen } from './ports.ts';
import type { QueryOf } from './query.ts';
import type { createIfError, createReplay } from './replay.ts';
import { type createKeepAlive, enterSession, type Examine } from './session-step.ts';
import { type AskedPath, checkHead, checkRequest, destinationOf } from './understand.ts';
import { type EngineOf, errorShape } from './understand.ts';

const asIs = (error: unknown) => error;

/** Answers requests below /mdx/xmla. Knows nothing of Express. */
export function createXmlaHandler(parts: {
  readonly clientOf: ReturnType<typeof createClients>;
  readonly memo: Memo;
  readonly replay: ReturnType<typeof createReplay>;
  readonly authenticator: Pick<Authenticator, 'remembered'>;
  readonly login: Login;
  readonly account: Pick<BodyAccount, 'request'>;
  readonly maxBodyBytes: number;
  readonly believedHit: ReturnType<typeof createBelievedHit>;
  readonly answerBody: ReturnType<typeof createAnswerBody>;
  readonly clearCache: ClearCacheHandler;
  readonly work: Readonly<Record<'begin' | 'end', () => void>>;
}) {
  const { memo, replay, login, account, work } = parts;

  /** Returns false when the request is for another handler. Its body must not have been read. */
  function handle(request: IncomingMessage, response: ServerResponse): boolean {
    const head = memo.headOf(request);
    const path = head ? undefined : readXmlaPath(request.url ?? '');
    if (head === undefined && path === undefined) return false;
    work.begin();
    if (path?.kind === 'clear-cache') {
      void parts.clearCache(request, response, path.project).finally(work.end);
      return true;
    }
    // By then the parser has read what came together with the head.
    setImmediate(answer, parts.clientOf(request, response, head), head, path);
    return true;
  }

  /** Takes a request from head to answer. Awaits nothing for a hit in memory. Never rejects. */
  async function answer(client: XmlaClient, head?: KnownHead, path?: AskedPath): Promise<void> {
    const { request, facts } = client;
    let shape: ErrorShape = 'soap-fault';
    /** Believed login: checked before all but a hit, also before a refusal. */
    let believed: RememberedLogin | undefined;
    const check = async () => login(request, facts.id);
    try {
      const taken = client.takeBody(head !== undefined);
      let known = taken && memo.recognise(head, taken);
      if (known && taken && replay.atOnce(known, client, taken)) return;
      client.watch();
      if (known && taken && (await replay.fetched(known, client, taken))) return;
      if (client.isGone) return;

      const asked = path ?? (readXmlaPath(request.url ?? '') as AskedPath);
      shape = errorShape(asked, request);
      const address = checkHead(request, asked, shape);
      const { page } = client.wishes;
      if (page !== undefined && isPreflight(request)) return client.allow(page.preflight);
      const remembered =
        head?.login ?? parts.authenticator.remembered(request.headers.authorization ?? '');
      const isVerified = remembered?.counts() === true;
      if (!isVerified && remembered?.countsForHits()) believed = remembered;
      const principal = (isVerified ? remembered : believed)?.principal ?? (await check());
      facts.principal = principal.name;
      client.owner = principal.owner;
      // Not before the login: clients could fill the labels of the metrics with invented names.
      facts.project = address.project ?? '';
      const ofPage = checkRequest(request, address, facts, page?.preflight !== undefined);
      const patience = () => client.patience();
      const room = account.request(principal.owner, patience, announcedLength(request));
      try {
        const { signal } = client;
        const body = await readBody(request, parts.maxBodyBytes, { room, signal, taken });
        if (taken === undefined) known = memo.recognise(head, body);
        const arrived = { client, address, principal, body, room, known, ofPage };
        if (believed !== undefined) {
          const hit = await parts.believedHit(arrived, believed);
          if (hit && replay.atOnce(hit, client, body)) return;
          if (hit && (await replay.fetched(hit, client, body))) return;
          const login = believed;
          believed = undefined;
          const failure = await check().then(() => undefined, asEngineFailure);
          // Looked up anew, as behind any failure of the engine.
          const old = failure && hit && (await parts.believedHit(arrived, login));
          if (old && (await replay.fetched(old, client, body, true))) return;
          if (failure !== undefined) throw failure;
        }
        await parts.answerBody(arrived);
      } finally {
        room.release();
      }
    } catch (error) {
      client.fail(believed ? await check().then(() => error, asIs) : error, shape);
    } finally {
      work.end();
    }
  }

  return handle;
}

export function createAnswerBody(parts: {
  readonly engineOf: EngineOf;
  readonly memo: Pick<Memo, 'read' | 'remember'>;
  readonly examine: Examine;
  readonly sessions: Parameters<typeof enterSession>[2];
  readonly ifError: ReturnType<typeof createIfError>;
  readonly permissions: Pick<Permissions, 'mayControlCache'>;
  readonly queryOf: QueryOf;
  readonly keepAlive: ReturnType<typeof createKeepAlive>;
  readonly cache: Pick<QueryCache, 'answer'>;
  readonly pass: ReturnType<typeof createPass>;
  readonly authenticator: Pick<Authenticator, 'remembered'>;
  readonly seen: readonly Pick<Seen, 'query' | 'ending'>[];
  readonly dropped: Pick<DroppedHeaders, 'note'>;
}) {
  const { memo, queryOf, pass } = parts;

  return async function answerBody(arrived: Arrived): Promise<void> {
    const { client, address, principal, body, known, ofPage } = arrived;
    const { request } = client;
    const { headers, method } = request;
    const engine = parts.engineOf(address.project);
    const destination = destinationOf(engine, address, principal, headers.authorization);
    const toEngine = { client, principal, destination };
    if (known === undefined) parts.dropped.note(headers, engine.settings.headers);
    // Bodies of other methods are read too: an engine may take them for a POST.
    if (method !== 'POST' && body.length === 0) return pass(toEngine, 'method');

    const taken = await memo.read(arrived, destination);
    const { asked: read } = taken;
    client.asks(read);
    const { asked, purges, step } = await parts.examine(read, destination, principal, ofPage);
    const handled = { ...toEngine, ...taken, request, address, body };
    if (known === undefined && read.bypass !== undefined) memo.remember(handled);
    const entered = await enterSession(asked, step, parts.sessions);
    const passing = { ...toEngine, asked, body, step: entered, purges };
    const control = clientControl(headers, parts.permissions.mayControlCache(principal));
    const unwanted = control === 'no-store' ? control : undefined;
    const bypass = method === 'POST' ? (entered.reason ?? asked.bypass ?? unwanted) : 'method';
    if (bypass !== undefined) return pass(passing, bypass);

    const session = entered.known;
    const fresh = control === 'no-cache';
    const query = await queryOf({ ...toEngine, asked, body, session, fresh });
    if (typeof query === 'string') return pass(passing, query);
    const addressee = { ...destination.addressee, named: asked.namedHeaders };
    const gone = session && (await parts.keepAlive(session, { ...destination, addressee }, client));
    if (gone !== undefined) {
      const outcome = { kind: 'bypass', detail: 'unknown-session' } as const;
      client.open(gone.head, outcome, gone.body.length);
      return client.end(gone.body.length, gone.body);
    }
    for (const one of parts.seen) one.query(handled, principal.name, query.parts, session);
    const mayBeOld = control === 'none' && query.staleIfError > 0;
    const told: Query = {
      ...query,
      ...(mayBeOld && { ifError: parts.ifError(handled, query, session) }),
      found(known, ending) {
        if (control !== 'none') return;
        const { share, roles, staleIfError } = query;
        const answer = { key: known, share, roles, staleIfError, session: session?.record };
        memo.remember(handled, answer);
        if (ending === undefined) return;
        const { key } = known;
        const { authorization = '' } = headers;
        const login = parts.authenticator.remembered(authorization);
        const of = { key, login, authorization, session: session?.record };
        for (const { ending: tell } of parts.seen)
          tell({ ...handled, ...of, requestedAt: ending.requestedAt });
      },
    };
    return parts.cache.answer(told, client);
  };
}
