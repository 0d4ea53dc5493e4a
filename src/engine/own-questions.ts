import type { EngineClear } from '../cache/purge/purge.ts';
import type { AnswerHead, EngineAnswer } from '../cache/query.ts';
import type { Clock } from '../common/clock.ts';
import { GatewayError } from '../common/errors.ts';
import type { Emit } from '../common/events.ts';
import { foldObjectName } from '../common/fold-case.ts';
import type { Away } from './away.ts';
import { type EngineConfig, KYLIN_URL } from './config.ts';
import { answerHead, bodyUpTo, decodedAnswer } from '../proxy/forwarded.ts';
import { NoAnswer, reasonOf, Silence, type Upstream } from '../proxy/upstream.ts';
import { decodeText } from '../xml/text-encoding.ts';
import { isElement, readTree, type XmlElement } from '../xml/xml-scanner.ts';
import { type LoginAnswer, readLoginAnswer } from '../xmla/answer/watch-answer.ts';
import { SOAP, soapActionOf, XMLA } from '../xmla/names.ts';
import { soapEnvelope } from '../xmla/soap-fault.ts';
import {
  createReplicas,
  type EngineAddressee,
  engineFailure,
  engineTarget,
  type QueryHeaders,
  type Replica,
  reportFailure,
} from './replicas.ts';

export type Touch =
  | { readonly kind: 'alive' }
  /** The engine's answer for the client: it no longer knows the session, or refuses it. */
  | { readonly kind: 'fault'; readonly head: AnswerHead; readonly body: Buffer }
  | { readonly kind: 'failed' };
/** A client waits for the answer, so this limits `engine.timeout`. */
const LONGEST_MS = 30_000;
const LARGEST_ANSWER = 1024 * 1024;

class LongAnswer extends Error {
  override readonly name = 'LongAnswer';
}

/**
 * Asks a small question of the gateway's own.
 * @param upstream without kept connections: some servers bind a login to its connection
 * @param largest bytes of the answer, decoded
 * @throws when no whole answer comes; LongAnswer
 */
export async function askOnce(
  upstream: Upstream,
  asked: Omit<Parameters<Upstream['forward']>[0], 'body'>,
  signal: AbortSignal,
  sent?: Buffer,
  connectLimitMs?: number,
  largest = LARGEST_ANSWER,
): Promise<{ readonly head: AnswerHead; readonly body: Buffer }> {
  const length = sent && { 'content-length': String(sent.length) };
  const headers = { ...asked.headers, ...length, 'accept-encoding': 'identity' };
  const limits = { signal, timeoutMs: LONGEST_MS, connectLimitMs };
  const answer = await upstream.forward({ ...asked, headers, body: sent }, limits);
  const { head, body } = decodedAnswer(answer, answerHead(answer), () => {});
  const whole = await bodyUpTo(body, largest);
  if (whole === undefined) throw new LongAnswer('it answered at too great length');
  return { head, body: whole };
}

/**
 * @param timeout `engine.timeout` (ms), cut to 30 seconds
 * @throws Silence, also as NoAnswer; errors of the work
 */
export function inTime<T>(
  timeout: number,
  signals: readonly AbortSignal[],
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const late = AbortSignal.timeout(Math.min(timeout, LONGEST_MS));
  return work(AbortSignal.any([...signals, late])).catch((error: unknown) => {
    if (!late.aborted) throw error;
    throw error instanceof NoAnswer ? new NoAnswer(new Silence()) : new Silence();
  });
}

const isPlain = ({ headers }: Pick<AnswerHead, 'headers'>) =>
  (headers['content-encoding'] ?? 'identity').trim().toLowerCase() === 'identity';
const CONTENT_TYPE = 'text/xml; charset=utf-8';

function discover(type: string, restrictions = '', properties = ''): Buffer {
  return soapEnvelope(
    '',
    `<Discover xmlns="${XMLA}"><RequestType>${type}</RequestType>` +
      `<Restrictions><RestrictionList>${restrictions}</RestrictionList></Restrictions>` +
      `<Properties><PropertyList>${properties}</PropertyList></Properties></Discover>`,
  );
}

/** The cheapest question that every engine knows: it opens no cube. */
const SMALLEST = discover('DISCOVER_DATASOURCES');

/** Asks about a catalog, or all. SSAS takes it from the properties, others from restrictions. */
export function catalogQuestion(type: string, catalog: string | undefined): Buffer {
  if (catalog === undefined) return discover(type);
  const restriction = `<CATALOG_NAME>${inXml(catalog)}</CATALOG_NAME>`;
  return discover(type, restriction, `<Catalog>${inXml(catalog)}</Catalog>`);
}

/** Writes character references, which every parser reads alike. */
export const inXml = (text: string) =>
  text.replace(/[^\w-]/gu, (one) => `&#${one.codePointAt(0)};`);

export function askDiscover(
  replicas: Pick<ReturnType<typeof createReplicas>, 'reach'>,
  project: string | undefined,
  authorization: string | undefined,
  signal: AbortSignal,
  question = SMALLEST,
  largest = LARGEST_ANSWER,
) {
  const headers = {
    ...(authorization && { authorization }),
    ...DISCOVER_HEADERS,
    accept: 'text/xml',
  };
  return replicas.reach({}, signal, (replica, connectLimitMs) => {
    const asked = { method: 'POST', path: replica.target(project, []), headers };
    return askOnce(replica.upstream, asked, signal, question, connectLimitMs, largest);
  });
}

export function createLoginTrial(
  config: Pick<EngineConfig, 'url' | 'ca' | 'certificate' | 'key' | 'timeout'>,
  clock: Clock,
  emit: Emit,
  away?: Away,
) {
  const replicas = createReplicas(config, clock, false, away);

  return {
    /** Never rejects. Takes 30 seconds at most. */
    async try(authorization: string, signal: AbortSignal): Promise<LoginAnswer | 'away'> {
      if (signal.aborted) return 'unavailable';
      try {
        const { head, body } = await inTime(config.timeout, [signal], (ending) =>
          askDiscover(replicas, undefined, authorization, ending),
        );
        if (!isPlain(head)) {
          throw new Error('the engine answered a login in a content coding that is not known');
        }
        const { status, headers } = head;
        const said = readLoginAnswer({ status, contentType: headers['content-type'], body });
        if (said !== 'unavailable') return said;
        throw new Error(`the engine answered a login with status ${status} and no clear word`);
      } catch (error) {
        if (signal.aborted) return 'unavailable';
        reportFailure(emit, '', error);
        return error instanceof NoAnswer ? 'away' : 'unavailable';
      }
    },
    close: replicas.close,
  };
}

/** Content of a SOAP Body; undefined for other documents, such as a page of a proxy. */
export function soapContent(head: Pick<AnswerHead, 'headers'>, body: Buffer, most?: number) {
  const decoded = isPlain(head) ? decodeText(body, head.headers['content-type']) : undefined;
  const parsed = decoded && readTree(decoded.utf8, undefined, most);
  const root = parsed?.kind === 'tree' ? parsed.root : undefined;
  const parts = root && isElement(root, SOAP, 'Envelope') ? root.children : [];
  return parts.find((part) => isElement(part, SOAP, 'Body'))?.children;
}

const LONGEST_TOUCH_BYTES = 64 * 1024;
const TOUCH_HEADERS: QueryHeaders = {
  'content-type': CONTENT_TYPE,
  soapaction: soapActionOf('Execute'),
};

type Ask = (
  ...asked: [EngineAddressee, QueryHeaders, Buffer, AbortSignal]
) => Promise<EngineAnswer>;

/** Never rejects. */
export async function touch(
  ask: Ask,
  addressee: EngineAddressee,
  sessionId: string,
  signal: AbortSignal,
  element: 'Session' | 'EndSession' = 'Session',
): Promise<Touch> {
  try {
    const id = inXml(sessionId);
    const sent = soapEnvelope(
      `<SOAP-ENV:Header><${element} xmlns="${XMLA}" mustUnderstand="1" SessionId="${id}"/></SOAP-ENV:Header>`,
      `<Execute xmlns="${XMLA}"><Command><Statement/></Command><Properties><PropertyList/></Properties></Execute>`,
    );
    const headers = { ...TOUCH_HEADERS, ...addressee.named };
    const { head, body } = await ask(addressee, headers, sent, signal);
    const bytes = await bodyUpTo(body, LONGEST_TOUCH_BYTES);
    if (bytes === undefined) return { kind: 'failed' };
    const content = soapContent(head, bytes);
    const faults = content?.filter((child) => isElement(child, SOAP, 'Fault')).length;
    if (content?.length === 1 && faults === 1) return { kind: 'fault', head, body: bytes };
    return { kind: head.status === 200 && faults === 0 ? 'alive' : 'failed' };
  } catch {
    return { kind: 'failed' };
  }
}

const CATALOGS = discover('DBSCHEMA_CATALOGS');
const DISCOVER_HEADERS = { ...TOUCH_HEADERS, soapaction: soapActionOf('Discover') };

/**
 * Lists catalogs that must not be read ahead of users: their CLIENTCACHEREFRESHPOLICY is 0
 * ([MS-SSAS] §3.1.4.2.2.1.3.1.1). @throws as `ask` does
 */
export async function askOnDemand(ask: Ask, addressee: EngineAddressee, signal: AbortSignal) {
  const to = { ...addressee, again: true };
  const { head, body } = await ask(to, { ...DISCOVER_HEADERS, ...to.named }, CATALOGS, signal);
  const bytes = await bodyUpTo(body, LARGEST_ANSWER);
  const rows = rowsIn((bytes && soapContent(head, bytes)) ?? []);
  const onDemand = rows.filter((row) => row('CLIENTCACHEREFRESHPOLICY') === '0');
  return onDemand.map((row) => row('CATALOG_NAME')).filter((name) => name !== '');
}

export function rowsIn(content: readonly XmlElement[]) {
  const rows: ((column: string) => string)[] = [];
  for (let level = content; level.length > 0;) {
    for (const { children } of level.filter(({ local }) => local === 'row')) {
      rows.push((name) => children.find(({ local }) => local === name)?.text.trim() ?? '');
    }
    level = level.flatMap(({ children }) => children);
  }
  return rows;
}

const BAD_NAME = 'It was not asked: the name of the project cannot stand in a path.';

/** @param replicas without kept connections; none if the engine has no clear operation */
export function createClearCalls(
  config: Pick<EngineConfig, 'login' | 'timeout'>,
  replicas: readonly Replica[],
  loginFor: (authorization: string | undefined) => string | undefined,
  emit: Emit,
) {
  /** @param user header Authorization of the caller, for `engine.login: forward` */
  return (project: string | undefined, user: string | undefined) => {
    const authorization = loginFor(user);
    if (config.login === 'forward' && authorization === undefined) return [];
    const headers = { accept: '*/*', ...(authorization !== undefined && { authorization }) };

    async function ask(upstream: Upstream, path: string): Promise<string | undefined> {
      const asked = { method: 'GET', path, headers };
      const answer = inTime(config.timeout, [], (signal) => askOnce(upstream, asked, signal));
      const { head, body } = await answer;
      return readClearAnswer(head, body, project);
    }

    return replicas.map(({ url, upstream }) => {
      const path = clearTarget(url, project);

      function failed(why: string, reason: GatewayError['reason'], error: unknown): EngineClear {
        emit({ type: 'engine-failed', project: project ?? '', replica: url, reason, error });
        return { replica: url, ok: false, why, ...(path === undefined && { called: false }) };
      }

      return {
        /** Equal for equal calls. Secret, since it holds the login. */
        id: JSON.stringify([upstream.origin, path, authorization ?? null, upstream.certificate]),
        /** Takes 30 seconds at most. Never rejects. */
        async make(): Promise<EngineClear> {
          try {
            const why = path === undefined ? BAD_NAME : await ask(upstream, path);
            if (why === undefined) return { replica: url, ok: true };
            const error = new GatewayError('engine-not-cleared', why);
            return failed(why, error.reason, error);
          } catch (error) {
            const { reason } = engineFailure(error);
            return failed(whyNoAnswer(reason, error), reason, reasonOf(error));
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

/**
 * Path of the clearCache of MDX for Kylin (interface document §4.3).
 * @returns undefined for a name that no path can carry: a server that decodes it early would climb
 */
export function clearTarget(template: string, project: string | undefined): string | undefined {
  if (project !== undefined && !canStandInPath(project)) return undefined;
  const base = engineTarget(template.replace(KYLIN_URL, ''))(project, []).replace(/\/$/, '');
  const segment = project === undefined ? '' : `/${encodeURIComponent(project)}`;
  return `${base}/mdx/xmla${segment}/clearCache`;
}

/** Servlet containers drop the part behind a semicolon. */
function canStandInPath(name: string): boolean {
  if (name === '' || /\p{Cc}/u.test(name) || !name.isWellFormed()) return false;
  return !name.split(/[/\\]/).some((part) => /^\.\.?(?:;|$)/.test(part));
}

const SHOWN = 120;
const DONE = 'Cache has been cleared.';
const folded = (text: string) => foldObjectName(text).replaceAll(/\s+/g, ' ');

/**
 * Reads the answer of MDX for Kylin to clearCache: only the words of the interface document §4.3
 * confirm it. A wrong password is answered with status 200 and a SOAP Fault.
 * @returns undefined when the cache is cleared, else a sentence without the word "cleared", which
 *   scripts look for
 */
export function readClearAnswer(
  head: Pick<AnswerHead, 'status' | 'headers'>,
  body: Buffer,
  project: string | undefined,
): string | undefined {
  const { status } = head;
  if ([401, 403, 407].includes(status)) return `It refused the login (status ${status}).`;
  if (status >= 300 && status < 400) {
    return `It answered with status ${status}, a redirect, which is not followed.`;
  }
  if (status !== 200) return `It answered with status ${status}.`;
  if (!isPlain(head)) return 'It answered in a content coding that is not known.';
  const text = body.toString('utf8').trim();
  if (/<(?:[\w.-]+:)?Fault[\s>]/.test(text)) {
    return 'It answered with a SOAP Fault, as to a wrong password.';
  }
  if (/^<(?:[!?]|html\b|(?:[\w.-]+:)?Envelope\b)/i.test(text)) {
    return 'It answered with a document instead of the words of clearCache.';
  }
  const said = folded(text);
  if (said === folded(DONE)) return undefined;
  if (project !== undefined && said === folded(`${project} ${DONE}`)) return undefined;
  if (text === '') return 'It answered with an empty text.';
  const shown = text.slice(0, SHOWN).replace(/[^\p{L}\p{N}\p{P}\p{S} ]+/gu, ' ');
  if (/cleared/i.test(shown)) return 'It answered with other words than those of clearCache.';
  return `It answered with another text: ${JSON.stringify(shown)}.`;
}
