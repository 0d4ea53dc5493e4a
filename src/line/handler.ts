import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Principal } from '../auth/authenticator.ts';
import { canonicalAuthorization } from '../auth/basic-credentials.ts';
import type { BodyAccount } from '../common/body-account.ts';
import type { ExplainXmla } from '../http/admin.ts';
import type { ErrorShape } from '../http/answers.ts';
import type { ClearCacheHandler } from '../http/clear-cache.ts';
import type { Login } from '../http/login.ts';
import { readBody } from '../http/read-body.ts';
import { announcedLength, clientControl } from '../http/request-head.ts';
import { readXmlaPath } from '../http/xmla-path.ts';
import type { KnownNames } from '../cache/projects.ts';
import type { StoredAnswer } from '../cache/stored-answer.ts';
import type { QueryCache } from '../cache/cache.ts';
import { checkHead, checkOrigin, checkRequest, errorShape, type AskedPath } from './checks.ts';
import { XmlaClient, type ClientServices } from './client.ts';
import { createExplanation } from './explain.ts';
import { createKeepAlive } from './keep-alive.ts';
import { createMemo, inSession, type Handled, type Known, type KnownHead } from './memo.ts';
import { createPass } from './pass.ts';
import { createQueryOf, destinationOf, type EngineOf } from './query.ts';
import { createContextOf, enterSession, judgeSession } from './session-step.ts';
import {
  createOwnTurns,
  projectsNamed,
  refuseOtherIdentity,
  understand,
  withTooManyNames,
} from './understand.ts';

export type XmlaHandler = ReturnType<typeof createXmlaHandler>;

/** The story of a request below /mdx/xmla. Knows nothing of Express. */
export function createXmlaHandler(
  options: ClientServices &
    Omit<Parameters<typeof createMemo>[0], 'ownTurn'> &
    Parameters<typeof createQueryOf>[0] &
    Parameters<typeof createPass>[0] &
    Parameters<typeof createKeepAlive>[0] &
    Parameters<typeof createContextOf>[0] & {
      login: Login;
      clearCache: ClearCacheHandler;
      engineOf: EngineOf;
      cache: Pick<QueryCache, 'answer' | 'recall' | 'bring' | 'gzipOf' | 'explain'>;
      names: Pick<KnownNames, 'admit' | 'wouldAdmit'>;
      /** Largest request body in bytes. */
      maxBody: number;
      /** The memory of its bodies. */
      account: BodyAccount;
      /** Told of what is under way. */
      work: { readonly begin: () => void; readonly end: () => void };
    },
): {
  /** False when the request is for another handler. Its body must not have been read. */
  readonly handle: (request: IncomingMessage, response: ServerResponse) => boolean;
  readonly explain: ExplainXmla;
} {
  const { permissions, sessions, names, cache, work } = options;
  const ownTurn = createOwnTurns();
  const memo = createMemo({ ...options, ownTurn });
  const queryOf = createQueryOf(options);
  const pass = createPass(options);
  const keepAlive = createKeepAlive(options);
  const contextOf = createContextOf(options);

  function handle(request: IncomingMessage, response: ServerResponse): boolean {
    const head = memo.headOf(request);
    const path = head?.path ?? readXmlaPath(request.url ?? '');
    if (path === undefined) return false;
    work.begin();
    if (path.kind === 'clear-cache') {
      void options.clearCache(request, response, path.project).finally(work.end);
      return true;
    }
    const client = new XmlaClient(request, response, options, head?.wishes);
    // By then the parser has been through everything that came together with the head.
    setImmediate(answer, client, path, head);
    return true;
  }

  /** The steps of one request, from its head to its answer. A hit that memory can answer awaits nothing. Never rejects. */
  async function answer(client: XmlaClient, path: AskedPath, head?: KnownHead): Promise<void> {
    const { request, facts } = client;
    let shape: ErrorShape = 'soap-fault';
    try {
      const taken = client.takeBody(head !== undefined);
      let known = taken && memo.recognise(head, taken);
      if (known && replayKnown(known, client)) return;
      client.watch();
      if (known && taken && (await fetchKnown(known, client, taken.length))) return;
      if (client.isGone) return;

      shape = errorShape(path, request);
      const address = checkHead(request, path, shape);
      const principal = await options.login(request);
      facts.principal = principal.name;
      // Not before: a client without a login could fill the labels of the metrics with invented names.
      facts.project = address.project ?? '';
      checkOrigin(request, facts);
      const room = options.account.request(principal.name, announcedLength(request));
      try {
        checkRequest(request, address);
        const { signal } = client;
        const body = await readBody(request, options.maxBody, { room, signal, taken });
        known ??= memo.recognise(head, body);
        await answerBody({ client, address, principal, body, known });
      } finally {
        room.release();
      }
    } catch (error) {
      client.fail(error, shape);
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
    if (key === undefined) return false;
    client.facts.principal = known.head.login.principal.name;
    client.facts.project = known.head.path.project ?? '';
    client.asks(known.asked);
    const recalled = cache.recall(key, brought);
    if (recalled === undefined) return false;
    const { answer: stored, source, ttl, age } = recalled;
    const gzip = client.wishes.takesGzip ? cache.gzipOf(key.key, stored) : undefined;
    const { sessionId } = known;
    client.replay(stored, { outcome: { kind: 'hit', detail: source }, ttl, age, sessionId, gzip });
    return true;
  }

  /** The same of what memory does not hold. Everything is judged once more behind the question to Redis. */
  async function fetchKnown(known: Known, client: XmlaClient, bytes: number): Promise<boolean> {
    const key = memo.keyOf(known);
    const brought = key && (await cache.bring(key, bytes));
    return brought !== undefined && !client.isGone && replayKnown(known, client, brought);
  }

  async function answerBody(request: {
    client: XmlaClient;
    address: Handled['address'];
    principal: Principal;
    body: Buffer;
    known: Known | undefined;
  }): Promise<void> {
    const { client, address, principal, body, known } = request;
    const { headers, method } = client.request;
    const destination = destinationOf(options.engineOf(address.project), {
      ...address,
      user: principal.name,
      authorization: () => canonicalAuthorization(headers.authorization),
    });
    const toEngine = { client, principal, destination };
    // What another method carries is read all the same: some engine may take it for a POST.
    if (method !== 'POST' && body.length === 0) return pass(toEngine, 'method');

    const isNew = known === undefined;
    const { traits, settings } = destination;
    const read = isNew ? await understand(headers, body, traits, ownTurn) : inSession(known);
    client.asks(read);
    // What was recognised asked for no other identity when it was read, and ids cannot make it do so.
    if (isNew) await refuseOtherIdentity(read, body, settings.delegation, ownTurn);
    const handled = { ...toEngine, request: client.request, address, body, asked: read };
    if (isNew && read.bypass !== undefined) void memo.rememberPassing(handled);

    // Before anything is kept under its names.
    const admitted = names.admit(principal.name, projectsNamed(read, address.project));
    const asked = admitted ? read : withTooManyNames(read);
    const context = contextOf(asked, destination, principal);
    const step = await judgeSession(asked, context);
    await enterSession(asked, step, sessions);
    const passing = { ...toEngine, asked, body, step, purges: context.purges };
    const control = clientControl(headers, permissions.mayControlCache(principal));
    if (method !== 'POST') return pass(passing, 'method');
    if (step.kind === 'pass') return pass(passing, step.reason);
    if (asked.bypass !== undefined) return pass(passing, asked.bypass);
    if (control === 'no-store') return pass(passing, 'no-store');

    const session = step.kind === 'clean' ? step : undefined;
    const source = { ...toEngine, asked, body, session, facts: client.facts };
    const query = await queryOf({ ...source, fresh: control === 'no-cache' });
    if (typeof query === 'string') return pass(passing, query);
    const gone = session && (await keepAlive.before({ ...session, destination }));
    if (gone !== undefined) {
      return client.answerWhole(gone.head, gone.body, {
        kind: 'bypass',
        detail: 'unknown-session',
      });
    }
    const found: typeof query.found = (key) =>
      void memo.rememberAnswer(handled, query, session, key);
    return cache.answer(control === 'none' ? { ...query, found } : query, client);
  }

  return { handle, explain: createExplanation({ ...options, queryOf, contextOf }) };
}
