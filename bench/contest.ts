import { figureOf, ratioOf } from './figures.ts';
import type { Engine, House, Subject } from './house.ts';
import { ask, type Answer } from './http.ts';
import { sendLoad, type Load, type LoadRequest } from './load/wrk.ts';
import { filled, XMLA_HEADERS } from './questions.ts';
import type { Row, SubjectReport } from './report.ts';

/** What one server reached in one round. */
interface Round {
  readonly perSecond: number;
  /** CPU time for one answer (µs). */
  readonly cpu: number;
  /** Milliseconds. */
  readonly p50: number;
  readonly p99: number;
}

type Quantity = keyof Round;

export interface Contest {
  readonly subjects: readonly SubjectReport[];
  /** A line of the table: a quantity of one server by that of another, round by round. */
  ratio(title: string, options: RatioOptions): Row;
}

interface RatioOptions {
  readonly of: Subject | undefined;
  readonly to: Subject | undefined;
  readonly quantity?: Quantity;
  readonly unit?: string;
}

export type LoadShape = Omit<Load, 'port' | 'seconds'>;

/**
 * Lets the servers answer a load in alternating rounds, each after a warm-up, and counts what they do. Only one is
 * under load at one time.
 *
 * @param shapeOf the load of a server; asked anew for each round, the warm-up is round 0
 * @param options.reaches how many of the requests to a cache must reach the engine: `none` where all are hits, `all`
 *   where none may be; a round in which it is not so is no measurement
 */
export async function contest(
  house: House,
  subjects: readonly Subject[],
  shapeOf: (subject: Subject, round: number) => LoadShape,
  options: {
    readonly engine?: Engine;
    readonly reaches?: 'none' | 'all';
    /** The share of requests that may reach the engine all the same; nothing by default. */
    readonly tolerated?: number;
    readonly rounds?: number;
  } = {},
): Promise<Contest> {
  const { engine, reaches, tolerated = 0 } = options;
  const { seconds } = house.settings;
  const most = Math.min(options.rounds ?? Infinity, house.settings.rounds);
  const measured = new Map<Subject, Round[]>(subjects.map((subject) => [subject, []]));

  async function once(subject: Subject, round: number): Promise<Round> {
    // The first round is one second longer: code is compiled in it.
    const load = {
      ...shapeOf(subject, round),
      port: subject.port,
      seconds: round === 0 ? seconds + 1 : seconds,
    };
    const before = (await engine?.count()) ?? 0;
    const cpuBefore = subject.cpu();
    const result = await sendLoad(load, house.folder('load')).catch((error: unknown) => {
      throw new Error(`${subject.name}: ${String(error)}`, { cause: error });
    });
    const cpu = (subject.cpu() - cpuBefore) / result.requests;
    const reached = ((await engine?.count()) ?? 0) - before;
    const isCache = subject.tells !== undefined;
    if (isCache && reaches === 'none' && reached > tolerated * result.requests) {
      throw new Error(
        `${subject.name}: ${reached} requests reached the engine, though all must be hits`,
      );
    }
    if (isCache && reaches === 'all' && reached < result.requests) {
      throw new Error(
        `${subject.name}: ${reached} of ${result.requests} requests reached the engine`,
      );
    }
    return { perSecond: result.requests / result.seconds, cpu, p50: result.p50, p99: result.p99 };
  }

  for (let round = 0; round <= most; round++) {
    for (const subject of subjects) {
      const result = await once(subject, round);
      if (round > 0) measured.get(subject)?.push(result);
      house.say(`${subject.name} ${Math.round(result.perSecond)}/s`);
    }
  }

  const valuesOf = (subject: Subject | undefined, quantity: Quantity): number[] =>
    (subject === undefined ? undefined : measured.get(subject))?.map((one) => one[quantity]) ?? [];

  return {
    subjects: subjects.map((subject) => ({
      name: subject.name,
      perSecond: figureOf(valuesOf(subject, 'perSecond')),
      cpu: figureOf(valuesOf(subject, 'cpu')),
      p50: figureOf(valuesOf(subject, 'p50')),
      p99: figureOf(valuesOf(subject, 'p99')),
    })),
    ratio(title, { of, to, quantity = 'perSecond', unit = `× ${to?.name ?? ''}` }) {
      return {
        title,
        unit,
        figure: ratioOf(valuesOf(of, quantity), valuesOf(to, quantity)),
        // The other way round: who needs less time for an answer gives more of them.
        ...(quantity === 'perSecond' && {
          byCpu: ratioOf(valuesOf(to, 'cpu'), valuesOf(of, 'cpu')),
        }),
      };
    },
  };
}

/** A request of XMLA to a server, from a template. */
export function requestTo(
  subject: Subject,
  body: string,
  headers: Readonly<Record<string, string>> = {},
): LoadRequest {
  return {
    path: subject.path,
    headers: { ...XMLA_HEADERS, ...subject.headers, ...headers },
    body,
  };
}

/** Sends one request, its slots filled. @throws Error unless the status is 200 */
export async function askOnce(
  subject: Subject,
  body: string,
  options: { headers?: Readonly<Record<string, string>>; session?: string; number?: number } = {},
): Promise<Answer> {
  const { headers, ...values } = options;
  const request = requestTo(subject, filled(body, values), headers);
  const answer = await ask(subject.port, request);
  if (answer.status !== 200) {
    throw new Error(
      `${subject.name}: status ${answer.status}: ${answer.body.toString().slice(0, 500)}`,
    );
  }
  return answer;
}

/**
 * That a server gives exactly these bytes, also the second time, and that a cache then has them from itself.
 * @throws Error that says what is different
 */
export async function expectHit(
  subject: Subject,
  body: string,
  expected: Buffer | ((answer: Answer) => Buffer),
  options: { headers?: Readonly<Record<string, string>>; session?: string; number?: number } = {},
): Promise<void> {
  for (const turn of ['first', 'second'] as const) {
    const answer = await askOnce(subject, body, options);
    expectBytes(
      `${subject.name}, ${turn} answer`,
      answer.body,
      typeof expected === 'function' ? expected(answer) : expected,
    );
    if (turn === 'second' && !isHit(subject, answer)) {
      throw new Error(`${subject.name}: no hit, ${JSON.stringify(answer.headers)}`);
    }
  }
}

/** Whether an answer says that it is from the cache; true of a server that is none. */
export function isHit({ tells }: Subject, { headers }: Answer): boolean {
  return tells === undefined || tells.hit.test(String(headers[tells.header]));
}

let compared = 0;

/** How many answers were compared byte by byte so far: a report tells it, since figures without it say nothing. */
export function comparedAnswers(): number {
  return compared;
}

/** @throws Error that shows where they differ */
export function expectBytes(what: string, got: Buffer, expected: Buffer): void {
  compared += 1;
  if (got.equals(expected)) return;
  const at = got.findIndex((byte, index) => byte !== expected[index]);
  const around = (bytes: Buffer) => bytes.toString('utf8', Math.max(0, at - 40), at + 80);
  throw new Error(
    `${what}: other bytes than the engine's (${got.length} for ${expected.length}) from ${at} on:\n` +
      `${around(got)}\nfor\n${around(expected)}`,
  );
}
