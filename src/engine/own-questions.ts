import type { EngineClear } from '../cache/purge/purge.ts';
import type { AnswerHead, EngineAnswer } from '../cache/query.ts';
import type { Clock } from '../common/clock.ts';
import { GatewayError } from '../common/errors.ts';
import type { Emit } from '../common/events.ts';
import { foldObjectName } from '../common/fold-case.ts';
import type { EngineConfig } from '../config/config.ts';
import { answerHead, bodyUpTo, decodedAnswer } from '../proxy/forwarded.ts';
import { reasonOf, Silence, type Upstream } from '../proxy/upstream.ts';
import { decodeText } from '../xml/text-encoding.ts';
import { isElement, readTree } from '../xml/xml-scanner.ts';
import { type LoginAnswer, readLoginAnswer } from '../xmla/answer/watch-answer.ts';
import { SOAP, soapActionOf, XMLA } from '../xmla/names.ts';
import type { EngineAddressee, QueryHeaders } from './replicas.ts';
import {
  createReplicas,
  engineFailure,
  engineTarget,
  type Replica,
  reportFailure,
} from './replicas.ts';

/** What became of an empty Execute by which a session is kept alive. */
export type Touch =
  | { readonly kind: 'alive' }
  /** The engine no longer knows the session, or refuses it: this is what the client is answered. */
  | { readonly kind: 'fault'; readonly head: AnswerHead; readonly body: Buffer }
  /** The engine could not be asked. */
  | { readonly kind: 'failed' };

/** A call of the engine's own clear operation at one replica, which is still to be made. */
export interface ClearCall {
  /** Equal for calls that would do the same. Holds the login: never shown. */
  readonly id: string;
  /** Takes no longer than `engine.timeout` or 30 seconds. Never rejects. */
  make(): Promise<EngineClear>;
}

/** A client waits for a small answer, so that this counts where `engine.timeout` is longer (ms). */
const LONGEST = 30_000;

/** Bytes, without content coding. */
const LARGEST_ANSWER = 1024 * 1024;

/** The answer is no answer to a small question. */
class LongAnswer extends Error {
  override readonly name = 'LongAnswer';
}

/**
 * Asks the engine a small question of the gateway's own.
 * @param upstream without kept connections: some servers bind a login to the connection on which it was made, and would
 *   take the next one's for the same
 * @param connectLimit as of `RequestLimits`
 * @returns the whole answer; its body has no content coding, unless in one that is not known
 * @throws when no whole answer comes; {@link LongAnswer} when it is longer than 1 MiB
 */
export async function askOnce(
  upstream: Upstream,
  asked: {
    readonly method: 'GET' | 'POST';
    readonly path: string;
    readonly headers: Readonly<Record<string, string>>;
    readonly body?: Buffer;
  },
  signal: AbortSignal,
  connectLimit?: number,
): Promise<{ readonly head: AnswerHead; readonly body: Buffer }> {
  const { body: sent, ...request } = asked;
  const length = sent && { 'content-length': String(sent.length) };
  const headers = { ...asked.headers, ...length, 'accept-encoding': 'identity' };
  const limits = { signal, timeout: LONGEST, connectLimit };
  const answer = await upstream.forward({ ...request, headers, body: sent }, limits);
  const { head, body } = decodedAnswer(answer, answerHead(answer), () => {});
  const whole = await bodyUpTo(body, LARGEST_ANSWER);
  if (whole === undefined) throw new LongAnswer('the engine answered at too great length');
  return { head, body: whole };
}

/**
 * Runs work that may take `engine.timeout`, at most 30 seconds.
 * @param timeout milliseconds
 * @throws Silence when time is up, else what the work throws
 */
async function inTime<T>(
  timeout: number,
  signals: readonly AbortSignal[],
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const late = AbortSignal.timeout(Math.min(timeout, LONGEST));
  try {
    return await work(AbortSignal.any([...signals, late]));
  } catch (error) {
    throw late.aborted ? new Silence() : error;
  }
}

/** Whether a body has no content coding. */
function isPlain(coding = 'identity'): boolean {
  return coding.trim().toLowerCase() === 'identity';
}

const CONTENT_TYPE = 'text/xml; charset=utf-8';

function envelope(header: string, body: string): Buffer {
  return Buffer.from(
    `<?xml version="1.0" encoding="UTF-8"?>\n` +
      `<SOAP-ENV:Envelope xmlns:SOAP-ENV="${SOAP}">${header}<SOAP-ENV:Body>${body}` +
      `</SOAP-ENV:Body></SOAP-ENV:Envelope>`,
  );
}

const NO_PROPERTIES = '<Properties><PropertyList/></Properties>';

/** The cheapest question that every engine knows: it opens no cube. */
const SMALLEST = envelope(
  '',
  `<Discover xmlns="${XMLA}"><RequestType>DISCOVER_DATASOURCES</RequestType>` +
    `<Restrictions><RestrictionList/></Restrictions>${NO_PROPERTIES}</Discover>`,
);

/**
 * Tries logins at the engine: at a replica to which a connection can be made, without a project.
 * @param emit told why an engine could not say
 */
export function createLoginTrial(
  config: Pick<EngineConfig, 'url' | 'ca' | 'certificate' | 'key' | 'timeout'>,
  clock: Clock,
  emit: Emit,
) {
  const replicas = createReplicas(config, clock, false);

  async function ask(authorization: string, signal: AbortSignal): Promise<LoginAnswer> {
    const headers = {
      authorization,
      'content-type': CONTENT_TYPE,
      soapaction: soapActionOf('Discover'),
      accept: 'text/xml',
    };
    const { head, body } = await replicas.reach(undefined, signal, (replica, connectLimit) => {
      const path = replica.target(undefined, []);
      const asked = { method: 'POST', path, headers, body: SMALLEST } as const;
      return askOnce(replica.upstream, asked, signal, connectLimit);
    });
    if (!isPlain(head.headers['content-encoding'])) {
      throw new Error('the engine answered a login in a content coding that is not known');
    }
    const contentType = head.headers['content-type'];
    const said = readLoginAnswer({ status: head.status, contentType, body });
    if (said === 'unavailable') {
      throw new Error(`the engine answered a login with status ${head.status} and no clear word`);
    }
    return said;
  }

  return {
    /**
     * Asks the engine a small question with this header Authorization. Never rejects. The whole takes no longer than
     * `engine.timeout` or 30 seconds.
     */
    async try(authorization: string, signal: AbortSignal): Promise<LoginAnswer> {
      if (signal.aborted) return 'unavailable';
      try {
        return await inTime(config.timeout, [signal], (ending) => ask(authorization, ending));
      } catch (error) {
        if (!signal.aborted) reportFailure(emit, '', error);
        return 'unavailable';
      }
    },
    /** Ends its connections. */
    close: replicas.close,
  };
}

/** The answer to an empty statement, or a Fault, is shorter than this (bytes). */
const LONGEST_TOUCH = 64 * 1024;

const TOUCH_HEADERS: QueryHeaders = {
  'content-type': CONTENT_TYPE,
  soapaction: soapActionOf('Execute'),
  accept: undefined,
  'user-agent': undefined,
  'x-as-sessionid': undefined,
};

/**
 * Sends an empty Execute in a session, so that the engine does not drop it. It is asked as every query is: in the line of
 * its user, with the same login. Never rejects.
 */
export async function touch(
  ask: (
    addressee: EngineAddressee,
    headers: QueryHeaders,
    body: Buffer,
    signal: AbortSignal,
  ) => Promise<EngineAnswer>,
  addressee: EngineAddressee,
  sessionId: string,
  signal: AbortSignal,
): Promise<Touch> {
  try {
    const { head, body } = await ask(addressee, TOUCH_HEADERS, emptyExecute(sessionId), signal);
    const bytes = await bodyUpTo(body, LONGEST_TOUCH);
    if (bytes === undefined || !isPlain(head.headers['content-encoding'])) {
      return { kind: 'failed' };
    }
    const decoded = decodeText(bytes, head.headers['content-type']);
    const parsed = decoded && readTree(decoded.utf8);
    const root = parsed?.kind === 'tree' ? parsed.root : undefined;
    // A page of a proxy on the way is no envelope.
    const parts = root && isElement(root, SOAP, 'Envelope') ? root.children : [];
    const content = parts.find((part) => isElement(part, SOAP, 'Body'))?.children;
    const faults = content?.filter((child) => isElement(child, SOAP, 'Fault')).length;
    if (content?.length === 1 && faults === 1) return { kind: 'fault', head, body: bytes };
    return { kind: head.status === 200 && faults === 0 ? 'alive' : 'failed' };
  } catch {
    // The engine's own failures have been told by those who asked it.
    return { kind: 'failed' };
  }
}

function emptyExecute(sessionId: string): Buffer {
  // As character references, nothing of it can mean anything else to any parser.
  const id = sessionId.replace(/[^\w-]/gu, (one) => `&#${one.codePointAt(0)};`);
  return envelope(
    `<SOAP-ENV:Header><Session xmlns="${XMLA}" mustUnderstand="1" SessionId="${id}"/></SOAP-ENV:Header>`,
    `<Execute xmlns="${XMLA}"><Command><Statement/></Command>${NO_PROPERTIES}</Execute>`,
  );
}

const BAD_NAME = 'It was not asked: the name of the project cannot stand in a path.';

/**
 * The clear operation of one engine (`engine.clear`).
 * @param replicas as they are configured, without kept connections; none where the engine has no such operation
 * @param loginFor the header Authorization for a request that came with this one
 * @param emit told why an upstream did not clear its cache
 */
export function createClearCalls(
  config: Pick<EngineConfig, 'login' | 'timeout'>,
  replicas: readonly Replica[],
  loginFor: (authorization: string | undefined) => string | undefined,
  emit: Emit,
) {
  /**
   * What clears the engine's own cache: one call for each replica.
   * @param project decoded; undefined for everything
   * @param authorization of the user who wants it, for `engine.login: forward`; undefined without one: then no call
   */
  return (project: string | undefined, authorization: string | undefined): readonly ClearCall[] => {
    const login = loginFor(authorization);
    if (config.login === 'forward' && login === undefined) return [];
    const headers = { accept: '*/*', ...(login !== undefined && { authorization: login }) };
    return replicas.map(({ url, upstream }): ClearCall => {
      const path = clearTarget(url, project);

      /** @returns undefined when the cache is cleared, else one sentence */
      async function ask(): Promise<string | undefined> {
        if (path === undefined) return BAD_NAME;
        const { head, body } = await inTime(config.timeout, [], (signal) =>
          askOnce(upstream, { method: 'GET', path, headers }, signal),
        );
        const coding = head.headers['content-encoding'];
        return readClearAnswer({ status: head.status, coding, body }, project);
      }

      const tell = (reason: GatewayError['reason'], error: unknown) =>
        emit({ type: 'engine-failed', project: project ?? '', replica: url, reason, error });
      return {
        id: JSON.stringify([upstream.origin, path, login ?? null, upstream.certificate]),
        async make(): Promise<EngineClear> {
          try {
            const why = await ask();
            if (why === undefined) return { replica: url, ok: true };
            tell('engine-not-cleared', new GatewayError('engine-not-cleared', why));
            return { replica: url, ok: false, why, ...(path === undefined && { called: false }) };
          } catch (error) {
            const { reason } = engineFailure(error);
            tell(reason, reasonOf(error));
            return { replica: url, ok: false, why: whyNoAnswer(reason, error) };
          }
        },
      };
    });
  };
}

function whyNoAnswer(reason: string, error: unknown): string {
  if (error instanceof LongAnswer) return 'Its answer is too long for that of clearCache.';
  if (reason === 'engine-timeout') return 'It did not answer in time.';
  return 'It cannot be reached, or broke off its answer.';
}

/** Where `engine.url` ends with `engine.clear: kylin`; what stands before is the server's base. */
const XMLA_PATH = /\/mdx\/xmla(?:_server)?(?:\/\{project\})?\/?$/;

/**
 * The path of the clearCache of MDX for Kylin (interface document §4.3).
 * @param template `engine.url`
 * @param project decoded; encoded again, canonically. Undefined for everything
 * @returns undefined for a name that no path can carry: a server that decodes it early would climb the path
 */
export function clearTarget(template: string, project: string | undefined): string | undefined {
  const base = engineTarget(template.replace(XMLA_PATH, ''))(project, []).replace(/\/$/, '');
  if (project === undefined) return `${base}/mdx/xmla/clearCache`;
  return canStandInPath(project)
    ? `${base}/mdx/xmla/${encodeURIComponent(project)}/clearCache`
    : undefined;
}

/** Servlet containers leave away what follows a semicolon. */
function canStandInPath(name: string): boolean {
  if (name === '' || /\p{Cc}/u.test(name) || !name.isWellFormed()) return false;
  const parts = name.split(/[/\\]/).map((part) => part.split(';', 1)[0] ?? '');
  return parts.every((part) => part !== '.' && part !== '..');
}

/** How much of an unexpected text is shown (characters). */
const SHOWN = 120;
const DONE = 'Cache has been cleared.';

/**
 * Reads the answer of MDX for Kylin to its clearCache. Only the words of the interface document §4.3 say that it was
 * done, alone or after the name of the project, in any letter case and with any white space; a wrong password is
 * answered with status 200 and a SOAP Fault.
 * @param answer.body without content coding
 * @param project whose cache was to be cleared, decoded; undefined for everything
 * @returns undefined when the cache is cleared, else one sentence that says what came instead. It never says
 *   "cleared", so that no script takes it for the words it looks for
 */
export function readClearAnswer(
  answer: {
    readonly status: number;
    readonly coding: string | undefined;
    readonly body: Buffer;
  },
  project: string | undefined,
): string | undefined {
  const { status } = answer;
  if (status === 401 || status === 403 || status === 407) {
    return `It refused the login (status ${status}).`;
  }
  if (status >= 300 && status < 400) {
    return `It answered with status ${status}, a redirect, which is not followed.`;
  }
  if (status !== 200) return `It answered with status ${status}.`;
  if (!isPlain(answer.coding)) {
    return 'It answered in a content coding that is not known.';
  }
  const text = answer.body.toString('utf8').trim();
  if (/<(?:[\w.-]+:)?Fault[\s>]/.test(text)) {
    return 'It answered with a SOAP Fault, as to a wrong password.';
  }
  if (/^<(?:[!?]|html\b|(?:[\w.-]+:)?Envelope\b)/i.test(text)) {
    return 'It answered with a document instead of the words of clearCache.';
  }
  const done = project === undefined ? [DONE] : [DONE, `${project} ${DONE}`];
  return done.map(folded).includes(folded(text)) ? undefined : otherText(text);
}

function folded(text: string): string {
  return foldObjectName(text).replaceAll(/\s+/g, ' ');
}

function otherText(text: string): string {
  if (text === '') return 'It answered with an empty text.';
  const shown = text.slice(0, SHOWN).replace(/[^\p{L}\p{N}\p{P}\p{S} ]+/gu, ' ');
  if (/cleared/i.test(shown)) return 'It answered with other words than those of clearCache.';
  return `It answered with another text: ${JSON.stringify(shown)}.`;
}
