/**
 * The engine of the benchmark: `node engine.ts PORT [DELAY]`. A server on node:http that answers from memory, as Mondrian
 * would after it has computed. What a statement asks for stands in it: `[SIZE_2048]` is the length of the answer.
 * Statements without a size, and Discovers, are answered by a size of their own, which their text decides. Each answer
 * to a question that has no size holds a digest of that question. `GET /count` tells how many requests came.
 */

import { createHash, randomUUID } from 'node:crypto';
import { createServer, type ServerResponse } from 'node:http';
import {
  ANSWER_TYPE,
  datasetOf,
  emptyAnswer,
  rowsetOf,
  wholeAnswer,
  type AnswerParts,
} from './answers.ts';

const [port = '0', delay = '0'] = process.argv.slice(2);

const SIZE = /\[SIZE_(\d+)\]/;
const QUESTION = /<Statement>([^]*?)<\/Statement>|<RequestType>[^]*?<\/Restrictions>/;
const SESSION = /<Session\s[^>]*SessionId="([^"]*)"/;

const EMPTY = emptyAnswer();
const bySize = new Map<number, AnswerParts & { readonly whole: Buffer }>();
const byQuestion = new Map<string, AnswerParts>();
let count = 0;

createServer((request, response) => {
  if (request.method === 'GET') return void response.end(String(count));
  count += 1;
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('end', () => {
    const body = Buffer.concat(chunks).toString('latin1');
    if (delay === '0') answer(response, body);
    else setTimeout(() => answer(response, body), Number(delay));
  });
}).listen(Number(port), '127.0.0.1');

function answer(response: ServerResponse, body: string): void {
  const session = sessionOf(body);
  const size = SIZE.exec(body)?.[1];
  if (size !== undefined && session === undefined) {
    return send(response, sized(Number(size)).whole);
  }
  const parts = size === undefined ? answerTo(QUESTION.exec(body)) : sized(Number(size));
  send(response, wholeAnswer(parts, session));
}

function send(response: ServerResponse, body: Buffer): void {
  response.writeHead(200, { 'Content-Type': ANSWER_TYPE, 'Content-Length': body.length });
  response.end(body);
}

/** The id that the SOAP header of the answer shows, as Mondrian does it. */
function sessionOf(body: string): string | undefined {
  if (body.includes('<BeginSession')) return randomUUID();
  return SESSION.exec(body)?.[1];
}

function sized(size: number): AnswerParts & { readonly whole: Buffer } {
  let found = bySize.get(size);
  if (found === undefined) {
    const parts = datasetOf(size);
    found = { ...parts, whole: wholeAnswer(parts) };
    bySize.set(size, found);
  }
  return found;
}

function answerTo(question: RegExpExecArray | null): AnswerParts {
  const [text = '', statement] = question ?? [];
  if (statement === '') return EMPTY;
  let found = byQuestion.get(text);
  if (found === undefined) {
    const digest = createHash('sha256').update(text).digest();
    const name = digest.toString('hex', 0, 8);
    const size = sizeBy(digest.readUInt16LE(8) / 65_536);
    found = statement === undefined ? rowsetOf(size, name) : datasetOf(size, name);
    byQuestion.set(text, found);
  }
  return found;
}

/** Most answers are short, some are long. */
function sizeBy(share: number): number {
  return share < 0.85
    ? 2_048 + Math.floor(share * 3_600)
    : 100_000 + Math.floor((share - 0.85) * 2e6);
}
