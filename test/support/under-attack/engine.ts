/*
 * A fast engine in a process of its own. One argument: what it says to invented names, `rows` or `faults`.
 * Tells its port to the process that started it.
 */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { faultAnswer, rowsetAnswer, envelope, response } from '../answers.ts';
import { longAnswerTo } from './long.ts';
import { answerTo, INVENTED, questionOf } from './remembered.ts';

const refuses = process.argv[2] === 'faults';
/** What is needed of a body stands in its beginning; of a long one the rest is only taken. */
const MOST_READ = 256 * 1024;
const MOST_HEAD = 256 * 1024;

const NO_ROWS = rowsetAnswer({ names: [] });
const FAULT = faultAnswer();
let sessions = 0;

function begunSession(): string {
  sessions += 1;
  const header = `<Session xmlns="urn:schemas-microsoft-com:xml-analysis" SessionId="begun-${sessions}"/>`;
  return response('Execute', 'empty', '', { header });
}

function answer(target: string, body: string): string {
  if (refuses && (target.includes(INVENTED) || body.includes(INVENTED))) return FAULT;
  if (body.includes('<BeginSession')) return begunSession();
  if (body.includes('<Discover')) return NO_ROWS;
  const question = questionOf(body);
  return question === undefined ? envelope('') : (longAnswerTo(question) ?? answerTo(question));
}

const server = createServer({ maxHeaderSize: MOST_HEAD }, (request, reply) => {
  let text = '';
  request.setEncoding('latin1');
  request.on('data', (part: string) => {
    if (text.length < MOST_READ) text += part;
  });
  request.on('end', () => {
    // In one write, with few turns of its own: what is tried here is the gateway, on the same cores.
    reply.writeHead(200, { 'content-type': 'text/xml; charset=utf-8' });
    reply.end(answer(request.url ?? '', text));
  });
  request.on('error', () => {});
});
server.listen(0, '127.0.0.1', () => process.send?.((server.address() as AddressInfo).port));
process.on('disconnect', () => process.exit());
