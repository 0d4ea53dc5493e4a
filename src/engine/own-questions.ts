import type { AnswerHead } from '../cache/query.ts';
import type { Clock } from '../common/clock.ts';
import type { Emit } from '../common/events.ts';
import type { EngineConfig } from '../config/config.ts';
import { answerHead, bodyUpTo, decodedAnswer } from '../proxy/forwarded.ts';
import { Silence, type Upstream } from '../proxy/upstream.ts';
import { decodeText } from '../xml/text-encoding.ts';
import { isElement, readTree } from '../xml/xml-scanner.ts';
import { type LoginAnswer, readLoginAnswer } from '../xmla/answer/watch-answer.ts';
import { SOAP, soapActionOf, XMLA } from '../xmla/names.ts';
import type { EngineAddressee, QueryHeaders, Touch } from './engine.ts';
import type { Engine } from './http-engine.ts';
import { createReplicas, reportFailure } from './replicas.ts';

/** A client waits for a small answer, so that this counts where `engine.timeout` is longer (ms). */
const LONGEST = 30_000;

/** Bytes, without content coding. */
const LARGEST_ANSWER = 1024 * 1024;

/** The answer is no answer to a small question. */
export class LongAnswer extends Error {
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
export async function inTime<T>(
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
export function isPlain(coding = 'identity'): boolean {
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
  ask: Engine['ask'],
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
