import { discover, execute } from '../envelopes.ts';
import { basic } from '../test-gateway.ts';
import { EVERY_PLACE, PROJECTS, SHARED, type Places } from './ledger.ts';

/** Who asks. Entries are not shared between users. */
export const ASKERS = ['alice', 'bob', 'carol'] as const;

/** One request that a client may send, ready to be sent. */
export interface Question {
  readonly user: string;
  /** Whose login the engine is to get; '' for none. */
  readonly login: string;
  /** As the stamp of its answer repeats it: path, and name of the question. */
  readonly asked: string;
  /** The projects whose data its answer may hold. */
  readonly places: Places;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

/** Questions about each project, of each user. Few, so that hits are frequent. */
const NAMES = ['q1', 'q2'] as const;
/** The name of a question whose answer is large begins so. */
export const LARGE = 'large';
/** And that of one that is rarely asked contains this. */
export const RARE = 'rare';
const RARE_NAMES = Array.from({ length: 10 }, (_none, number) => `${RARE}${number}`);
const SHARED_PATH = `/${PROJECTS[SHARED]}`;
/** Clients send it, and the engine gets it, with what they ask. */
const TRACE = `00-${'1'.repeat(32)}-${'2'.repeat(16)}-01`;

/** Every question, those of one kind in a list of their own. */
export interface Questions {
  /** They name one project. */
  readonly usual: readonly Question[];
  /** They name two projects, or none, so that their answers may hold data of all. */
  readonly wide: readonly Question[];
  /** Their answers are so large that they lie in Redis in pieces. */
  readonly large: readonly Question[];
  /** Rarely asked, so that a warm-up comes before users do. */
  readonly rare: readonly Question[];
}

/** @param isShared whether the engine gets no login with those of the shared project */
export function allQuestions(isShared: boolean): Questions {
  const usual: Question[] = [];
  const wide: Question[] = [];
  const large: Question[] = [];
  const rare: Question[] = [];
  for (const user of ASKERS) {
    const made = (path: string, name: string, places: Places, body: Buffer): Question => ({
      user,
      login: isShared && path === SHARED_PATH ? '' : user,
      asked: `${path}:${name}`,
      places,
      path: `/mdx/xmla${path}`,
      body,
      headers: {
        authorization: basic(user),
        traceparent: TRACE,
        'content-type': 'text/xml; charset=utf-8',
        'content-length': String(body.length),
      },
    });
    for (const [place, project] of PROJECTS.entries()) {
      const path = `/${project}`;
      for (const name of NAMES) {
        usual.push(made(path, `cube-${name}`, [place], cubes(project, `cube-${name}`)));
        usual.push(made(path, name, [place], cells(project, name)));
      }
      large.push(made(path, `${LARGE}1`, [place], cells(project, `${LARGE}1`)));
      const other = (place + 1) % PROJECTS.length;
      const pair = cells(PROJECTS[other] ?? '', 'pair');
      wide.push(made(path, 'pair', [place, other], pair));
    }
    wide.push(
      made('', 'catalogs', EVERY_PLACE, discover({ requestType: 'DBSCHEMA_CATALOGS' })),
      made('', 'unnamed', EVERY_PLACE, execute({ statement: 'SELECT FROM [unnamed]' })),
    );
    for (const name of RARE_NAMES) {
      const project = PROJECTS[SHARED] ?? '';
      rare.push(made(SHARED_PATH, name, [SHARED], cells(project, name)));
      rare.push(made(SHARED_PATH, `cube-${name}`, [SHARED], cubes(project, `cube-${name}`)));
    }
  }
  return { usual, wide, large, rare };
}

function cubes(project: string, name: string): Buffer {
  return discover({
    requestType: 'MDSCHEMA_CUBES',
    restrictions: { CATALOG_NAME: project, CUBE_NAME: name },
  });
}

function cells(project: string, name: string): Buffer {
  return execute({
    statement: `SELECT FROM [${name}]`,
    properties: { Catalog: project },
  });
}

const NAMED = /<CUBE_NAME>([^<]*)<|FROM \[([^\]]*)\]/u;

/** The name of the question, as the engine finds it in the request. */
export function questionName(body: string): string {
  const [, cube, statement] = NAMED.exec(body) ?? [];
  return cube ?? statement ?? 'catalogs';
}
