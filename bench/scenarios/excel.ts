import { Agent } from 'node:http';
import {
  excelBegin,
  excelEnd,
  EXCEL_HEADERS,
  excelRequests,
  DISTINCT_QUESTIONS,
  type ExcelRequest,
} from '../../test/support/excel-session.ts';
import { expectBytes } from '../contest.ts';
import { ANALYST, basic, TEAM } from '../credentials.ts';
import { figureOf, type Figure } from '../figures.ts';
import { startGateway } from '../gateway.ts';
import { startEngine, type Engine, type Subject } from '../house.ts';
import { ask, type Answer } from '../http.ts';
import { startNginx } from '../peers/nginx.ts';
import { startVarnish } from '../peers/varnish.ts';
import { shownSession } from '../sessions.ts';
import type { Row } from '../report.ts';
import type { Scenario } from './scenario.ts';

/** What the engine takes for an answer (ms). */
const ENGINE_MS = 50;

interface Size {
  readonly users: number;
  /** Of each user, one after the other. */
  readonly workbooks: number;
}

interface Outcome {
  readonly requests: number;
  readonly reached: number;
  readonly seconds: number;
}

/** The body of an answer with its session taken out, for each question: what a cache may not change. */
type Known = Map<string, string>;

const excel: Scenario = {
  name: 'excel',
  title: 'workbooks of several users, an engine that takes 50 ms',
  async run(house) {
    const { quick, peers, rounds } = house.settings;
    const size: Size = quick ? { users: 2, workbooks: 2 } : { users: 4, workbooks: 5 };
    const known: Known = new Map();
    const engine = await startEngine(house, ENGINE_MS);
    const direct: Subject = {
      name: 'no cache',
      port: engine.port,
      path: '/xmla',
      headers: {},
      cpu: () => 0,
    };
    const none = await work(direct, engine, size, known);
    const first: Outcome[] = [];
    const own: Outcome[] = [];
    for (let round = 0; round < Math.min(3, rounds); round++) {
      const gateway = await startGateway(house, engine.port, {
        name: `gateway ${round}`,
        settings: { auth: { admins: [ANALYST] } },
      });
      // The warm-up: afterwards the cache is empty as it was at first.
      first.push(await work(gateway, engine, size, known));
      await clearCache(gateway);
      own.push(await work(gateway, engine, size, known));
    }
    const others = peers
      ? [await startNginx(house, engine.port), await startVarnish(house, engine.port)]
      : [];
    const beside: [string, Outcome][] = [];
    for (const peer of others) beside.push([peer.name, await work(peer, engine, size, known)]);

    // Answers are shared by the workbooks of one user; beginning and end are each session's own.
    const needed = size.users * DISTINCT_QUESTIONS + 2 * size.users * size.workbooks;
    const best = none.requests / needed;
    const timesFaster = (outcomes: readonly Outcome[]) =>
      outcomes.map(({ seconds }) => none.seconds / seconds);
    const faster = timesFaster(own);
    return {
      rows: [
        row(
          'of what is possible, total time',
          figureOf(faster.map((one) => one / best)),
          '× possible',
        ),
        row('gateway, total time', figureOf(faster)),
        row('gateway, just started', figureOf(timesFaster(first))),
        row('possible: all requests by those that must reach the engine', figureOf([best])),
        ...beside.map(([name, { seconds }]) =>
          row(`${name}, total time`, figureOf([none.seconds / seconds])),
        ),
      ],
      notes: [
        `${none.requests} requests, of which ${needed} must reach the engine`,
        told('no cache', none),
        ...own.map((one) => told('gateway', one)),
        ...first.map((one) => told('gateway, just started', one)),
        ...beside.map(([name, outcome]) => told(name, outcome)),
      ],
    };
  },
};

/** As an operator does after a data load. @throws Error when the gateway does not confirm it */
async function clearCache({ name, port, path, headers }: Subject): Promise<void> {
  const { status } = await ask(port, { method: 'GET', path: `${path}/clearCache`, headers });
  if (status !== 200) throw new Error(`${name}: clearCache was answered by ${status}`);
}

function row(title: string, figure: Figure, unit = '× no cache'): Row {
  return { title, unit, figure };
}

function told(name: string, { requests, reached, seconds }: Outcome): string {
  return `${name}: ${reached} of ${requests} reached the engine, ${seconds.toFixed(2)} s`;
}

/** Everybody works at the same time. @throws Error when an answer is not exactly what the engine says */
async function work(subject: Subject, engine: Engine, size: Size, known: Known): Promise<Outcome> {
  const before = await engine.count();
  const began = performance.now();
  const users = TEAM.slice(0, size.users);
  const worked = await Promise.all(users.map((user) => workOf(user, subject, size)));
  const seconds = (performance.now() - began) / 1000;
  const requests = worked.reduce((sum, { count }) => sum + count, 0);
  // Not before: to compare them takes longer than to get them.
  for (const { question, session, body } of worked.flatMap(({ answers }) => answers)) {
    expectOwn(subject, question, body, session, known);
  }
  return { requests, reached: (await engine.count()) - before, seconds };
}

interface Worked {
  readonly count: number;
  readonly answers: readonly {
    readonly question: string;
    readonly session: string;
    readonly body: Buffer;
  }[];
}

async function workOf(user: string, subject: Subject, size: Size): Promise<Worked> {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const answers: Worked['answers'][number][] = [];
  let count = 0;
  const send = async (request: ExcelRequest): Promise<Answer> => {
    count += 1;
    const headers = {
      ...EXCEL_HEADERS,
      ...(subject.tells?.header === 'x-cache' ? {} : basic(user)),
      'content-type': 'text/xml',
      soapaction: request.soapAction,
    };
    const answer = await ask(subject.port, {
      path: subject.path,
      headers,
      body: request.body,
      agent,
    });
    if (answer.status !== 200) throw new Error(`${subject.name}: status ${answer.status}`);
    return answer;
  };
  try {
    for (let workbook = 0; workbook < size.workbooks; workbook++) {
      const session = shownSession((await send(excelBegin())).body);
      if (session === undefined) throw new Error(`${subject.name}: no session was begun`);
      for (const request of excelRequests(session)) {
        const { body } = await send(request);
        answers.push({ question: request.question, session, body });
      }
      await send(excelEnd(session));
    }
    return { count, answers };
  } finally {
    agent.destroy();
  }
}

/** That an answer shows the session of its request, and is otherwise the engine's answer to this question. */
function expectOwn(
  subject: Subject,
  question: string,
  body: Buffer,
  session: string,
  known: Known,
): void {
  const shown = shownSession(body);
  if (shown !== session) throw new Error(`${subject.name}: session ${shown} for ${session}`);
  const text = body.toString().replace(session, '');
  const before = known.get(question);
  if (before === undefined) known.set(question, text);
  else expectBytes(`${subject.name}, ${question}`, Buffer.from(text), Buffer.from(before));
}

export const excelWork: readonly Scenario[] = [excel];
