import { discover, execute } from '../envelopes.ts';
import { HOSTILE_BODIES } from '../hostile-bodies.ts';
import { INCOMPRESSIBLE, LONG as LONG_ANSWER } from './long.ts';
import { asking, INVENTED } from './remembered.ts';

/** One request of an attacker. */
export interface HostileRequest {
  readonly path: string;
  readonly body: Buffer;
  /** Whether the body is sent in that coding. */
  readonly gzip: boolean;
  readonly headers?: Readonly<Record<string, string>>;
}

/** How many catalogs a request may name before it passes uncached. */
const MOST_CATALOGS = 16;
const QUERY = 'SELECT FROM [Sales]';
const PATH = '/mdx/xmla';

/** A name of about so many bytes that was never sent before. The letter takes two bytes, and so does each one then in V8. */
function name(number: number, length: number): string {
  const mark = `${INVENTED} ${number} ł `;
  return mark + 'x'.repeat(Math.max(0, length - mark.length - 1));
}

const names = (number: number, count: number, length: number) =>
  Array.from({ length: count }, (_, index) => name(number * count + index, length));

const cubesOf = (...values: readonly string[]) =>
  discover({
    requestType: 'MDSCHEMA_CUBES',
    restrictions: [{ name: 'CATALOG_NAME', form: values.length === 1 ? 'plain' : 'value', values }],
  });

/** Restrictions, properties, statements and sessions with names of so many bytes that the reader takes just one. */
const LONG: readonly ((number: number) => Buffer)[] = [
  (number) => cubesOf(...names(number, MOST_CATALOGS, 60_000)),
  (number) => execute({ statement: QUERY, properties: { Catalog: name(number, 900_000) } }),
  (number) => cubesOf(...names(number, MOST_CATALOGS, 30_000)),
  (number) => cubesOf(name(number, 900_000)),
  (number) => execute({ statement: `SELECT FROM [${name(number, 900_000)}].[Sales]` }),
  (number) =>
    execute({
      statement: '',
      session: { kind: 'begin' },
      properties: { Catalog: name(number, 900_000) },
    }),
];

const LENGTHS_OF_PATHS = [60_000, 60_000, 4_000, 60_000, 256, 255];

function inPath(number: number, lengths: readonly number[]): HostileRequest {
  const mark = `${INVENTED}-${number}-`;
  const length = lengths[number % lengths.length] ?? 0;
  const project = mark + 'x'.repeat(Math.max(0, length - mark.length));
  return { path: `${PATH}/${project}`, body: execute({ statement: QUERY }), gzip: false };
}

const inBody = (body: Buffer, gzip = false): HostileRequest => ({ path: PATH, body, gzip });

const longCatalogs = (number: number) =>
  inBody(LONG[number % LONG.length]?.(number) ?? Buffer.alloc(0), true);
const longProjects = (number: number) => inPath(number, LENGTHS_OF_PATHS);

/** Nearly as much as a head may have (bytes). */
const LONG_HEAD = 14_000;
/** As long as a body may be that is remembered (bytes). */
const REMEMBERED = 64 * 1024;
/** What passes the cache is remembered when it comes again. */
const PASSING = 'DRILLTHROUGH SELECT FROM [Sales]';
/** The layouts that one head may have. */
const LAYOUTS = 16;

/** Paths whose queries were never sent before; each comes so often that it is remembered. */
const queryString = (number: number): HostileRequest => ({
  path: `${PATH}?invented=${Math.floor(number / 4)}${'x'.repeat(LONG_HEAD)}`,
  body: execute({ statement: PASSING }),
  gzip: false,
});

/** Bodies with as many values as possible that do not count, each length twice, under heads that were never sent before. */
function layout(number: number): HostileRequest {
  const value = `<Timeout>${'1'.repeat(1 + (Math.floor(number / 2) % LAYOUTS))}</Timeout>`;
  const count = number % 8 < 4 ? 30 : Math.floor(60_000 / value.length);
  const body = execute({ statement: PASSING })
    .toString()
    .replace('</PropertyList>', `${value.repeat(count)}$&`);
  const head = String(Math.floor(number / (2 * LAYOUTS)));
  const headers = { 'user-agent': `Apache-HttpClient/${head.padEnd(LONG_HEAD, 'x')}` };
  return { path: PATH, body: Buffer.from(body), gzip: false, headers };
}

/** The bodies of that length that take longest to be read. */
const SLOW = ['properties of many names', 'strings in strings', 'restrictions of many names']
  .map((name) => HOSTILE_BODIES[name]?.(REMEMBERED - 600))
  .flatMap((body) => body ?? []);

/** What an attacker sends, by the kind of the attack: the request of that number. */
export const ATTACKS = {
  'long-catalogs': longCatalogs,
  'long-projects': longProjects,
  'long-names': (number: number) =>
    number % 8 === 0 ? longCatalogs(number / 8) : longProjects(number),
  'many-catalogs': (number: number) =>
    inBody(
      number % 2 === 0
        ? cubesOf(...names(number, MOST_CATALOGS, 0))
        : execute({ statement: QUERY, properties: { Catalog: name(number, 0) } }),
    ),
  sessions: () =>
    inBody(
      execute({
        statement: '',
        session: { kind: 'begin' },
        properties: { Catalog: 'FoodMart' },
      }),
    ),
  projects: (number: number) => inPath(number, [0, 0, 0, 255, 255, 60_000]),
  'nested-declarations': (number: number) => inBody(nested(number), true),
  'query-strings': queryString,
  layouts: layout,
  'slow-bodies': (number: number) => {
    const body = SLOW[number % SLOW.length]?.toString() ?? '';
    return inBody(Buffer.from(body.replace('SELECT', `SELECT [${INVENTED} ${number}],`)));
  },
  'long-answer': () => inBody(asking(LONG_ANSWER)),
  'incompressible-answers': (number: number) => inBody(asking(INCOMPRESSIBLE[number % 2] ?? '')),
} satisfies Record<string, (number: number) => HostileRequest>;

const LEVELS = 58;
const PREFIXES = 250;
const ELEMENTS = 34_000;

/** Elements whose default namespace is declared far outside, or nowhere. */
function nested(number: number): Buffer {
  const declarations = Array.from({ length: PREFIXES }, (_, at) => ` xmlns:p${at}="urn:u"`).join(
    '',
  );
  const inside =
    `<p0:n${declarations}>`.repeat(LEVELS) + '<a/>'.repeat(ELEMENTS) + '</p0:n>'.repeat(LEVELS);
  const plain = cubesOf(name(number, 0)).toString();
  if (number % 2 === 0) {
    return Buffer.from(
      plain.replace('<SOAP-ENV:Body>', `<SOAP-ENV:Header>${inside}</SOAP-ENV:Header>$&`),
    );
  }
  return Buffer.from(plain.replace('<RestrictionList>', `$&${inside}`));
}
