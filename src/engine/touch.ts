import { bodyUpTo } from '../proxy/answer.ts';
import type { AnswerHead } from '../cache/query.ts';
import { SOAP, XMLA } from '../xmla/names.ts';
import { soapActionOf } from '../xmla/names.ts';
import { watchAnswer } from '../xmla/answer/watch-answer.ts';
import { isElement, readTree } from '../xml/xml-scanner.ts';
import { decodeText } from '../xml/text-encoding.ts';
import type { Engine, QueryHeaders, Touch } from './engine.ts';

/** The answer to an empty statement, or a Fault, is shorter than this (bytes). */
const LONGEST_ANSWER = 64 * 1024;

const HEADERS: QueryHeaders = {
  'content-type': 'text/xml; charset=utf-8',
  soapaction: soapActionOf('Execute'),
  accept: undefined,
  'user-agent': undefined,
  'x-as-sessionid': undefined,
};

/** An engine's `touch`, which asks as every query is asked: in the line of its user, with the same login. */
export function createTouch(ask: Engine['ask']): Engine['touch'] {
  return async function touch(addressee, sessionId, signal) {
    try {
      return await outcome(await ask(addressee, HEADERS, emptyExecute(sessionId), signal));
    } catch {
      // The engine's own failures have been told by those who asked it.
      return { kind: 'failed' };
    }
  };
}

async function outcome({ head, body }: Awaited<ReturnType<Engine['ask']>>): Promise<Touch> {
  const bytes = await bodyUpTo(body, LONGEST_ANSWER);
  const coded = head.headers['content-encoding'] ?? 'identity';
  if (bytes === undefined || coded.trim().toLowerCase() !== 'identity') return { kind: 'failed' };
  const watch = watchAnswer({ contentType: head.headers['content-type'] });
  watch.write(bytes);
  watch.end();
  if (watch.faultOnly === true) return { kind: 'fault', head, body: bytes };
  return { kind: head.status === 200 && isAnswer(bytes, head) ? 'alive' : 'failed' };
}

/** Whether it is an envelope of SOAP whose body holds no Fault: a page of a proxy on the way is none. */
function isAnswer(bytes: Buffer, head: AnswerHead): boolean {
  const decoded = decodeText(bytes, head.headers['content-type']);
  const parsed = decoded.ok ? readTree(decoded.utf8) : undefined;
  if (parsed?.kind !== 'tree' || !isElement(parsed.root, SOAP, 'Envelope')) return false;
  const body = parsed.root.children.find((child) => isElement(child, SOAP, 'Body'));
  return body !== undefined && !body.children.some((child) => isElement(child, SOAP, 'Fault'));
}

function emptyExecute(sessionId: string): Buffer {
  // As character references, nothing of it can mean anything else to any parser.
  const id = sessionId.replace(/[^\w-]/gu, (one) => `&#${one.codePointAt(0)};`);
  return Buffer.from(
    `<?xml version="1.0" encoding="UTF-8"?>\n` +
      `<SOAP-ENV:Envelope xmlns:SOAP-ENV="${SOAP}">` +
      `<SOAP-ENV:Header><Session xmlns="${XMLA}" mustUnderstand="1" SessionId="${id}"/></SOAP-ENV:Header>` +
      `<SOAP-ENV:Body><Execute xmlns="${XMLA}"><Command><Statement/></Command>` +
      `<Properties><PropertyList/></Properties></Execute></SOAP-ENV:Body></SOAP-ENV:Envelope>`,
  );
}
