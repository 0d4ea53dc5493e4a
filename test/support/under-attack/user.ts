/*
 * A well-behaved user in a process of its own: asks remembered queries again and again. One argument: UserSettings as JSON.
 * Says `ready` when the queries are remembered; begins at `begin`, and at `end` tells a UserReport.
 */
import { Agent, request } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { answerTo, asking, isHit } from './remembered.ts';

export interface UserSettings {
  readonly port: number;
  /** From which it connects. */
  readonly address: string;
  /** The password is the name in lower case. */
  readonly name: string;
  readonly path: string;
}

export interface UserReport {
  readonly hits: number;
  /** Requests that were not answered with 200, the right bytes and a hit. */
  readonly failed: number;
  /** What became of the first of them. */
  readonly failures: readonly string[];
  /** Milliseconds; `anew` with a new connection for each request. */
  readonly longest: { readonly kept: number; readonly anew: number };
}

const QUESTIONS = Array.from({ length: 20 }, (_, number) => `Remembered ${number}`);
const MOST_TOLD = 5;
/** Between an answer and the next question of the same connection (ms). */
const PAUSE = 10;

const { port, address, name, path } = JSON.parse(process.argv[2] ?? '') as UserSettings;
const authorization = `Basic ${Buffer.from(`${name}:${name.toLowerCase()}`).toString('base64')}`;

/** Undefined when it was a hit with the right bytes. */
function ask(question: string, agent: Agent | false): Promise<string | undefined> {
  const body = asking(question);
  return new Promise((resolve) => {
    const asked = request(
      {
        host: '127.0.0.1',
        port,
        method: 'POST',
        path,
        agent,
        localAddress: address,
        headers: { authorization, 'content-type': 'text/xml', 'content-length': body.length },
      },
      (answer) => {
        let text = '';
        answer.setEncoding('utf8').on('data', (part: string) => (text += part));
        answer.on('error', (error) => resolve(String(error)));
        answer.on('end', () => {
          const status = answer.headers['cache-status'];
          if (answer.statusCode !== 200) resolve(`${answer.statusCode} ${status}`);
          else if (text !== answerTo(question)) resolve('other bytes');
          else resolve(isHit(status) ? undefined : String(status));
        });
      },
    );
    asked.on('error', (error) => resolve(String(error)));
    asked.end(body);
  });
}

let [hits, failed] = [0, 0];
const ending = new AbortController();
const failures: string[] = [];
const longest = { kept: 0, anew: 0 };

async function askOnAndOn(how: keyof typeof longest, first: number): Promise<void> {
  const agent = how === 'kept' ? new Agent({ keepAlive: true, maxSockets: 1 }) : false;
  for (let asked = first; !ending.signal.aborted; asked += 1) {
    const since = performance.now();
    const failure = await ask(QUESTIONS[asked % QUESTIONS.length] ?? '', agent);
    longest[how] = Math.max(longest[how], performance.now() - since);
    if (failure === undefined) hits += 1;
    else {
      failed += 1;
      if (failures.length < MOST_TOLD) failures.push(`${how}: ${failure}`);
    }
    await sleep(PAUSE);
  }
  if (agent !== false) agent.destroy();
}

process.on('disconnect', () => process.exit());
for (const question of QUESTIONS) await ask(question, false);
let running: Promise<unknown> = Promise.resolve();
process.on('message', (said) => {
  if (said === 'begin') {
    running = Promise.all([askOnAndOn('kept', 0), askOnAndOn('kept', 7), askOnAndOn('anew', 13)]);
    return;
  }
  ending.abort();
  void running.then(() => {
    const report: UserReport = { hits, failed, failures, longest };
    process.send?.(report, () => process.exit());
  });
});
process.send?.('ready');
