/*
 * Many clients that ask at one time, in a process of their own. One argument: a Crowd as JSON.
 * Prints what became of them as JSON, a CrowdReport.
 */
import { request, type IncomingMessage } from 'node:http';
import { crc32 } from 'node:zlib';
import { createSemaphore } from '../../../src/common/semaphore.ts';
import { execute } from '../envelopes.ts';
import { largeAnswer, questionFor, STATEMENTS } from './large-answer.ts';

export interface Crowd {
  readonly port: number;
  /** Their passwords are their names in lower case. */
  readonly users: readonly string[];
  readonly clients: number;
  /** How many of them ask at one time; left out: all. */
  readonly atOnce?: number;
  /** Bytes of an answer at least. */
  readonly least: number;
  readonly statement: keyof typeof STATEMENTS;
  /** Whether all ask the same. */
  readonly same: boolean;
  /** So many clients take nothing of their answers until all others have theirs. */
  readonly slow: number;
}

export interface CrowdReport {
  /** Clients that had status 200 and every byte of the answer to their own question. */
  readonly answered: number;
  /** What the others had. */
  readonly failures: readonly string[];
  /** How many heads said each Cache-Status. */
  readonly statuses: Readonly<Record<string, number>>;
}

const NEVER = new AbortController().signal;
const crowd = JSON.parse(process.argv[2] ?? '') as Crowd;
const statuses: Record<string, number> = {};

function ask(user: string, question: string): Promise<IncomingMessage> {
  const credentials = Buffer.from(`${user}:${user.toLowerCase()}`).toString('base64');
  const body = execute({ statement: STATEMENTS[crowd.statement](question) });
  return new Promise((resolve, reject) => {
    const asked = request({
      host: '127.0.0.1',
      port: crowd.port,
      method: 'POST',
      path: '/mdx/xmla',
      agent: false,
      headers: {
        authorization: `Basic ${credentials}`,
        'content-type': 'text/xml',
        'content-length': body.length,
      },
    });
    asked.once('response', resolve).once('error', reject);
    asked.end(body);
  });
}

const isSlow = (client: number) => client < crowd.slow;
const othersDone = Promise.withResolvers<void>();

/** Undefined when all is well. */
async function visit(client: number): Promise<string | undefined> {
  const question = questionFor(crowd.least, crowd.same ? 'all' : String(client));
  const user = crowd.users[client % crowd.users.length] ?? '';
  try {
    const answer = await ask(user, question);
    const status = String(answer.headers['cache-status']);
    statuses[status] = (statuses[status] ?? 0) + 1;
    if (isSlow(client)) await othersDone.promise;
    let length = 0;
    let crc = 0;
    for await (const chunk of answer as AsyncIterable<Buffer>) {
      length += chunk.length;
      crc = crc32(chunk, crc);
    }
    const expected = largeAnswer(question);
    if (answer.statusCode !== 200) return `status ${answer.statusCode}`;
    return length === expected.length && crc === expected.crc ? undefined : `${length} other bytes`;
  } catch (error) {
    return String(error);
  }
}

const gate = createSemaphore(crowd.atOnce ?? crowd.clients);
const visits = Array.from({ length: crowd.clients }, async (_, client) => {
  const leave = await gate.acquire(NEVER);
  return visit(client).finally(leave);
});
void Promise.all(visits.filter((_, client) => !isSlow(client))).then(() => othersDone.resolve());
const results = await Promise.all(visits);
const failures = results.filter((result) => result !== undefined);
const report: CrowdReport = { answered: results.length - failures.length, failures, statuses };
process.stdout.write(JSON.stringify(report));
