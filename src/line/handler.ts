import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Principal } from '../auth/authenticator.ts';
import { canonicalAuthorization } from '../auth/basic-credentials.ts';
import type { BodyAccount } from '../body-account.ts';
import type { ExplainXmla } from '../http/admin.ts';
import type { ErrorShape } from '../http/answers.ts';
import { clearCacheShape, type ClearCacheHandler } from '../http/clear-cache.ts';
import type { Login } from '../http/login.ts';
import { readBody } from '../http/read-body.ts';
import { clientControl } from '../http/request-head.ts';
import { readXmlaPath } from '../http/xmla-path.ts';
import type { KnownNames } from '../query-cache/known-names.ts';
import type { QueryCache } from '../query-cache/query-cache.ts';
import { checkHead, checkOrigin, checkRequest, meansClearing, type AskedPath } from './checks.ts';
import { XmlaClient, type ClientServices } from './client.ts';
import { createExplanation } from './explain.ts';
import { createKeepAlive } from './keep-alive.ts';
import { createMemo, inSession, type Handled, type KnownHead, type Recognised } from './memo.ts';
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

export interface XmlaHandler {
  /**
   * Answers everything below /mdx/xmla; false when the request is for another handler. The body must not have been
   * read. Knows nothing of Express.
   */
  readonly handle: (request: IncomingMessage, response: ServerResponse) => boolean;
  /** What would become of a request; nothing is changed and no engine asked. */
  readonly explain: ExplainXmla;
}

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
      cache: Pick<QueryCache, 'answer' | 'recall' | 'gzipOf' | 'explain'>;
      names: Pick<KnownNames, 'admit' | 'wouldAdmit'>;
      /** Largest request body in bytes. */
      maxBody: number;
      /** The memory of its bodies. */
      account: BodyAccount;
      /** Told of what is under way. */
      work: { readonly begin: () => void; readonly end: () => void };
    },
): XmlaHandler {
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
  async function answer(
    client: XmlaClient,
    path: AskedPath,
    head: KnownHead | undefined,
  ): Promise<void> {
    const { request, facts } = client;
    let shape: ErrorShape = 'soap-fault';
    try {
      const taken = client.takeBody(head !== undefined);
      let recognised = head && taken && memo.recognise(head, taken);
      if (head && recognised && answerFromMemory(client, head, recognised)) return;
      client.watch();
      if (client.isGone) return;

      const clearing = meansClearing(path, request);
      if (clearing) shape = clearCacheShape(request);
      const address = checkHead(request, path, clearing);
      const principal = await options.login(request);
      facts.principal = principal.name;
      // Not before: a client without a login could fill the labels of the metrics with invented names.
      facts.project = address.project ?? '';
      checkOrigin(request, facts);
      const room = options.account.request(
        principal.name,
        Number(request.headers['content-length'] ?? 0),
      );
      try {
        checkRequest(request, address);
        const { signal } = client;
        const body = await readBody(request, options.maxBody, { room, signal, taken });
        recognised ??= head && memo.recognise(head, body);
        await answerBody({ client, address, principal, body, recognised });
      } finally {
        room.release();
      }
    } catch (error) {
      client.fail(error, shape);
    } finally {
      work.end();
    }
  }

  /** False where memory holds no answer, or something may have changed since it was found. */
  function answerFromMemory(client: XmlaClient, head: KnownHead, recognised: Recognised): boolean {
    const known = memo.keyOf(head, recognised);
    const recalled = known && cache.recall(known);
    if (known === undefined || recalled === undefined) return false;
    client.facts.principal = head.login.principal.name;
    client.facts.project = head.path.project ?? '';
    client.asks(recognised.asked);
    const { answer: stored, source, ttl, age } = recalled;
    client.replay(stored, {
      outcome: { kind: 'hit', detail: source },
      ttl,
      age,
      sessionId: recognised.sessionId,
      gzip: head.wishes.takesGzip ? cache.gzipOf(known.key, stored) : undefined,
    });
    return true;
  }

  async function answerBody(request: {
    client: XmlaClient;
    address: Handled['address'];
    principal: Principal;
    body: Buffer;
    recognised: Recognised | undefined;
  }): Promise<void> {
    const { client, address, principal, body, recognised } = request;
    const { headers, method } = client.request;
    const destination = destinationOf(options.engineOf(address.project), {
      ...address,
      user: principal.name,
      authorization: () => canonicalAuthorization(headers.authorization),
    });
    const toEngine = { client, principal, destination };
    // What another method carries is read all the same: some engine may take it for a POST.
    if (method !== 'POST' && body.length === 0) return pass(toEngine, 'method');

    const isNew = recognised === undefined;
    const { traits, settings } = destination;
    const read = isNew ? await understand(headers, body, traits, ownTurn) : inSession(recognised);
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
