import type { Clock } from '../common/clock.ts';
import { ENGINE_KINDS } from '../common/engine-kinds.ts';
import { listOf } from '../common/list-of.ts';
import type { Config, EngineConfig } from '../config/config.ts';
import { serviceAuthorization } from '../proxy/forwarded.ts';
import { isElement } from '../xml/xml-scanner.ts';
import { isChanging, KNOWN_FUNCTIONS } from '../xmla/mdx/known-functions.ts';
import { judgeFormula } from '../xmla/mdx/statement-policy.ts';
import { foldName, SOAP } from '../xmla/names.ts';
import { askDiscover, catalogQuestion, inTime, rowsIn, soapContent } from './own-questions.ts';
import { describeFailure } from './probe.ts';
import { createReplicas, tellsProject } from './replicas.ts';

/** Bytes and elements of an answer: engines list hundreds of functions, and thousands of measures. */
const LARGEST = 64 * 1024 * 1024;
const MOST_ELEMENTS = 2_000_000;
/** So many catalogs are looked through. */
const MOST_CATALOGS = 100;
/** Rowsets with formulas, and the columns by which their rows are named. */
const WITH_FORMULAS = [
  ['MDSCHEMA_MEASURES', 'MEASURE_UNIQUE_NAME'],
  ['MDSCHEMA_SETS', 'SET_NAME'],
] as const;

interface Asked {
  readonly engine: EngineConfig;
  /** For `{project}`. */
  readonly project: string | undefined;
}
type Line = readonly [what: string, state: string, why: string];

/**
 * What engines keep from the eyes of the cache: functions of their own, and formulas of measures and sets that read clock or
 * user. With the login of `engine.service` or none. Never rejects.
 */
export async function askHidden(config: Config, clock: Pick<Clock, 'now'>) {
  const { engine, projects, cache } = config;
  const own = [...projects].map(([project, one]) => ({ engine: one.engine, project }));
  const asked = [{ engine, project: undefined }, ...own].flatMap((one): readonly Asked[] => {
    if (!one.engine.url.some(tellsProject)) return [{ ...one, project: undefined }];
    return one.project === undefined ? [] : [one];
  });
  const names = [cache, ...projects.values()].flatMap(({ functions }) => functions);
  const declared = new Set(names.map(foldName));
  const distinct = new Map(asked.map((one) => [JSON.stringify(one), one]));
  const lines = [...distinct.values()].map((one) => linesOf(one, declared, clock));
  return (await Promise.all(lines)).flat();
}

async function linesOf(
  { engine, project }: Asked,
  declared: ReadonlySet<string>,
  clock: Pick<Clock, 'now'>,
): Promise<readonly Line[]> {
  const replicas = createReplicas(engine, clock, false);
  const authorization = engine.service && serviceAuthorization(engine.service);
  const isNew = (name: string) => !declared.has(foldName(name));

  const rowsOf = (type: string, catalog?: string) =>
    inTime(engine.timeout, [], async (signal) => {
      const question = catalogQuestion(type, catalog);
      const answer = askDiscover(replicas, project, authorization, signal, question, LARGEST);
      const { head, body } = await answer;
      const content = soapContent(head, body, MOST_ELEMENTS);
      const isAnswer = content?.every((one) => !isElement(one, SOAP, 'Fault')) === true;
      if (!isAnswer) throw new Error(`it does not answer ${type} (status ${head.status})`);
      return rowsIn(content);
    });

  async function functions(): Promise<readonly Line[]> {
    const own = (await rowsOf('MDSCHEMA_FUNCTIONS')).flatMap((row) => {
      const name = row('FUNCTION_NAME');
      const isKnown = KNOWN_FUNCTIONS.has(name.toLowerCase()) && row('ORIGIN') !== '2';
      // Engines list operators too, and words between their parts.
      const isName = /^[a-z]\w*(?:\.\w+)*$/i.test(name);
      return isName && !isKnown && !isChanging(name) && isNew(name) ? [name] : [];
    });
    const names = listOf([...new Set(own)], 50);
    return names === '' ? [] : [[`functions ${names}`, 'pass', FUNCTION_REMEDY]];
  }

  async function formulas(): Promise<readonly Line[]> {
    const cubes = new Map<string, string[]>();
    const catalogs = (await rowsOf('DBSCHEMA_CATALOGS')).map((row) => row('CATALOG_NAME'));
    for (const catalog of catalogs.slice(0, MOST_CATALOGS)) {
      for (const [type, column] of WITH_FORMULAS) {
        for (const row of await rowsOf(type, catalog)) {
          const { bypass, unknown } = judgeFormula(row('EXPRESSION'), ENGINE_KINDS[engine.kind]);
          const calls = unknown.filter(isNew);
          if (bypass === undefined && calls.length === 0) continue;
          const cube = `cube ${row('CUBE_NAME')} of ${catalog}`;
          const found = cubes.get(cube) ?? [];
          cubes.set(cube, found);
          found.push(`${row(column)} (${bypass ?? `calls ${listOf(calls)}`})`);
        }
      }
    }
    return [...cubes].map(([cube, found]) => [cube, 'hides', `${listOf(found)}; ${CUBE_REMEDY}`]);
  }

  const failed = (what: string) => (error: unknown) => [
    [`${what} of ${engine.url[0]}`, 'unknown', describeFailure(error)] as const,
  ];
  try {
    const told = await functions().catch(failed('functions'));
    return [...told, ...(await formulas().catch(failed('formulas')))];
  } finally {
    replicas.close();
  }
}

const FUNCTION_REMEDY =
  'they are user-defined; put those that read neither clock, user nor server into cache.functions';
const CUBE_REMEDY =
  'where that changes by time or user, projects.NAME.cubes: { CUBE: off } keeps it out of the cache';
