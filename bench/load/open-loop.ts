import { Agent } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { datasetOf, wholeAnswer } from '../answers.ts';
import { expectBytes } from '../contest.ts';
import { figureOf, type Figure } from '../figures.ts';
import type { Engine, Subject } from '../house.ts';
import { ask } from '../http.ts';
import type { Row } from '../report.ts';
import type { LoadRequest } from './wrk.ts';

export interface Outcome {
  /** From when a request was due to its last byte, of each that was answered (ms). */
  readonly waits: readonly number[];
  readonly requests: number;
  /** Those whose status was no success, or whose connection failed. */
  readonly refused: number;
  /** CPU time of the server for one request (µs). */
  readonly cpu: number;
  readonly reached: number;
  readonly seconds: number;
}

/**
 * Sends each request when it is due, whatever became of those before it, as people ask.
 * @param rate requests a second; Infinity: all are due at once
 * @param requests without slots; their statements name the size of the answer
 * @throws Error where an answer is not what the engine says
 */
export async function sendWhenDue(
  subject: Subject,
  engine: Engine,
  rate: number,
  requests: readonly LoadRequest[],
): Promise<Outcome> {
  const agent = new Agent({ keepAlive: true });
  const waits: number[] = [];
  const bodies: (readonly [what: string, body: Buffer])[] = [];
  let refused = 0;
  const before = await engine.count();
  const cpu = subject.cpu();
  const began = performance.now();
  const sendOne = async (request: LoadRequest, at: number): Promise<void> => {
    const due = began + (at * 1000) / rate;
    await delay(Math.max(0, Math.ceil(due - performance.now())));
    try {
      const { status, body } = await ask(subject.port, { ...request, agent });
      if (status === 200) {
        waits.push(performance.now() - due);
        bodies.push([request.body, body]);
      } else refused += 1;
    } catch {
      refused += 1;
    }
  };
  await Promise.all(requests.map(sendOne));
  const seconds = (performance.now() - began) / 1000;
  const used = subject.cpu() - cpu;
  agent.destroy();
  // Not before: to compare them takes longer than to get them.
  for (const [asked, body] of bodies) {
    const size = Number(/\[SIZE_(\d+)\]/.exec(asked)?.[1]);
    expectBytes(`${size} bytes`, body, wholeAnswer(datasetOf(size)));
  }
  const { length } = requests;
  const reached = (await engine.count()) - before;
  return { waits, requests: length, refused, cpu: used / length, reached, seconds };
}

/** What is told of it. */
export function outcomeRows(title: string, { waits, refused, cpu }: Outcome): readonly Row[] {
  const sorted = waits.toSorted((a, b) => a - b);
  const at = (share: number): Figure =>
    figureOf([sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? NaN]);
  return [
    { title: `${title}: refused or cut off`, unit: 'requests', figure: figureOf([refused]) },
    { title: `${title}: half wait for`, unit: 'ms', figure: at(0.5) },
    { title: `${title}: 95 of 100 wait for`, unit: 'ms', figure: at(0.95) },
    { title: `${title}: longest wait`, unit: 'ms', figure: at(1) },
    { title: `${title}: CPU time of a request`, unit: 'µs', figure: figureOf([cpu]) },
  ];
}
