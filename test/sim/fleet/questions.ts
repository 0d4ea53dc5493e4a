import type { DiscoverRequest } from '../../../src/xmla/request/read-request.ts';
import type { UnderstoodRequest } from '../../../src/line/understand.ts';
import type { SimulatedRequest } from './client.ts';
import type { FleetProgram } from './gateway.ts';
import { EVERY_PLACE, type Places, PROJECTS } from './ledger.ts';

/** What a client may ask. */
export interface Question {
  readonly places: Places;
  readonly variant: number;
}

/** What a client logs in with. */
export interface Login {
  readonly user: string;
  readonly password: number;
  /** The header that says so. */
  readonly authorization: string;
}

/** What a client says of the cache; undefined where it says nothing. */
export type Control = 'no-cache' | 'no-store' | undefined;

export const USERS = ['alice', 'bob', 'carol'] as const;
export const isUser = (name: string) => (USERS as readonly string[]).includes(name);
/** Whose Cache-Control counts. */
export const CONTROLLER = USERS[0];
/** Projects whose answers only their user gets. */
export const OWN_SHARED = ['south'];
export const EVERYBODY = 'everyone';

/** Whose answer it is: that of everybody who asks, or of one user. */
export const whoseOf = (user: string, places: Places): string =>
  places.some((place) => OWN_SHARED.includes(PROJECTS[place] ?? '')) ? user : EVERYBODY;

/** The same for all requests that one answer may serve. */
export const wordOf = (user: string, { places, variant }: Question): string =>
  `${whoseOf(user, places)} ${places.join()} ${variant}`;

const projectOf = ({ places }: Question) =>
  places.length === EVERY_PLACE.length ? undefined : PROJECTS[places[0] ?? 0];

const VARIANTS = [0, 1];
/** All that is asked, about one project and about all. */
export const QUESTIONS: readonly Question[] = [
  ...EVERY_PLACE.map((place) => [place]),
  EVERY_PLACE,
].flatMap((places) => VARIANTS.map((variant) => ({ places, variant })));
const bodies = new Map<Question, Buffer>(
  QUESTIONS.map((one) => [one, Buffer.from(JSON.stringify(one))]),
);
const asked = new Map([...bodies].map(([question, body]) => [body, question]));

/** The bytes of one of {@link QUESTIONS}. */
export const bodyOf = (question: Question): Buffer => bodies.get(question) ?? Buffer.of();

/** @throws Error for other bytes */
export function questionIn(body: Buffer): Question {
  const question = asked.get(body) ?? QUESTIONS.find((one) => bodyOf(one).equals(body));
  if (question === undefined) throw new Error('these are not the bytes of a question');
  return question;
}

export const loginOf = (user: string, password: number): Login => ({
  ...{ user, password },
  authorization: `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`,
});

/** Who that header names, and the number of the password. */
export function loginIn(authorization: string) {
  const text = Buffer.from(authorization.slice(6), 'base64').toString();
  const [user = '', password] = text.split(':');
  return { user, password: Number(password) };
}

const requests = new Map<Question, Map<string, SimulatedRequest>>();

/** As it comes from the parser of Node.js; equal ones are one. */
export function requestOf(question: Question, login: Login, control: Control): SimulatedRequest {
  const alike = requests.get(question) ?? new Map<string, SimulatedRequest>();
  requests.set(question, alike);
  const name = `${login.user} ${login.password} ${control}`;
  const request = alike.get(name) ?? newRequest(question, login, control);
  alike.set(name, request);
  return request;
}

function newRequest(question: Question, login: Login, control: Control): SimulatedRequest {
  const project = projectOf(question);
  const headers = {
    host: 'simulated',
    'content-type': 'text/xml',
    authorization: login.authorization,
    ...(control && { 'cache-control': control }),
  };
  return {
    method: 'POST',
    url: project === undefined ? '/mdx/xmla' : `/mdx/xmla/${project}`,
    httpVersion: '1.1',
    headers,
    rawHeaders: Object.entries(headers).flat(),
    body: bodyOf(question),
  };
}

const REQUEST: DiscoverRequest = {
  ...{ method: 'Discover', requestType: 'MDSCHEMA_CUBES', restrictions: [], properties: [] },
  ...{ session: { kind: 'none' }, sessionIds: [], sessionToken: false, headers: [], forms: [] },
  ...{ security: false, unexpected: undefined },
};
const HEADERS = {
  'content-type': 'text/xml',
  soapaction: '"urn:schemas-microsoft-com:xml-analysis:Discover"',
};
const made = new WeakMap<FleetProgram, Map<Buffer, UnderstoodRequest>>();

/** What `understand` would make of these bytes, made once. */
export function understood(program: FleetProgram, body: Buffer): UnderstoodRequest {
  const all = made.get(program) ?? new Map<Buffer, UnderstoodRequest>();
  made.set(program, all);
  const found = all.get(body);
  if (found !== undefined) return found;
  const question = questionIn(body);
  const project = projectOf(question);
  const parts = program.key.askedOf({
    ...{ engine: 'engine', project: project ?? null, query: [`variant=${question.variant}`] },
    ...{ userAgentClass: null, accept: 'text/xml', contentType: 'text/xml' },
    ...{ soapAction: HEADERS.soapaction, namedHeaders: undefined, request: REQUEST },
  });
  const catalogs = { catalogs: [], spansCatalogs: project === undefined, qualified: false };
  const read = {
    ...{ request: REQUEST, parts, namedHeaders: undefined, encoding: undefined },
    ...{ subject: REQUEST.requestType, why: '', bypass: undefined, functions: [] },
    ...{ forwarded: HEADERS, session: REQUEST.session, sessionToken: false, leavesState: false },
    ...{ change: undefined, named: { catalogs, cubes: { cubes: [], certain: true } } },
    ...{ projects: project === undefined ? [] : [project], unkept: undefined },
    ...{ sessionIds: [], asksForOther: false },
  } as unknown as UnderstoodRequest;
  all.set(body, read);
  return read;
}
