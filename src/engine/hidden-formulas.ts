import type { Clock } from '../common/clock.ts';
import { ENGINE_KINDS } from '../common/engine-kinds.ts';
import { listOf } from '../common/list-of.ts';
import { basicAuthorization } from '../common/principal.ts';
import type { EngineConfig } from './config.ts';
import { isElement } from '../xml/xml-scanner.ts';
import { isChanging, KNOWN_FUNCTIONS } from '../xmla/mdx/known-functions.ts';
import { judgeFormula } from '../xmla/mdx/statement-policy.ts';
import { foldName, SOAP } from '../xmla/names.ts';
import { askDiscover, catalogQuestion, inTime, rowsIn, soapContent } from './own-questions.ts';
import { describeFailure } from './probe.ts';
import { createReplicas, tellsProject } from './replicas.ts';

/** Limits of an answer: engines list hundreds of functions and thousands of measures. */
const LARGEST = 64 * 1024 * 1024;
const MOST_ELEMENTS = 2_000_000;
const MOST_CATALOGS = 100;
const WITH_FORMULAS = [
  ['MDSCHEMA_MEASURES', 'MEASURE_UNIQUE_NAME'],
  ['MDSCHEMA_SETS', 'SET_NAME'],
] as const;
const DECLARE =
  'user-defined; put those that read neither clock, user nor server into cache.functions';
const SWITCH_OFF =
  'where that changes by time or user, projects.NAME.cubes: { CUBE: off } keeps it out of the cache';

type Asked = Readonly<{ engine: EngineConfig; project: string | undefined }>;

type Section = Readonly<{ engine: EngineConfig; functions: readonly string[] }>;
type AskedConfig = Readonly<{
  engine: EngineConfig;
  cache: Pick<Section, 'functions'>;
  projects: ReadonlyMap<string, Section>;
}>;

/**
 * Finds what engines hide from the cache: their own functions, and formulas of measures and sets
 * that read clock or user. Never rejects.
 */
export async function askHidden(config: AskedConfig, clock: Pick<Clock, 'now' | 'wall'>) {
  const asked = new Map<string, Asked>();
  for (const [name, { engine }] of [[undefined, config] as const, ...config.projects]) {
    const isTold = engine.url.some(tellsProject);
    const one = { engine, project: isTold ? name : undefined };
    if (!isTold || name !== undefined) asked.set(JSON.stringify(one), one);
  }
  const sections = [config.cache, ...config.projects.values()];
  const declared = new Set(sections.flatMap(({ functions }) => functions).map(foldName));
  const isNew = (name: string) => !declared.has(foldName(name));
  return (await Promise.all([...asked.values()].map((one) => linesOf(one, isNew, clock)))).flat();
}

async function linesOf(
  { engine, project }: Asked,
  isNew: (name: string) => boolean,
  clock: Pick<Clock, 'now' | 'wall'>,
) {
  const replicas = createReplicas(engine, clock, false);
  const authorization = engine.service && basicAuthorization(engine.service);
  const lines: [what: string, state: string, why: string][] = [];

  const rowsOf = (type: string, catalog?: string) =>
    inTime(engine.timeout, [], async (signal) => {
      const question = catalogQuestion(type, catalog);
      const answer = askDiscover(replicas, project, authorization, signal, question, LARGEST);
      const { head, body } = await answer;
      const content = soapContent(head, body, MOST_ELEMENTS) ?? [];
      const isFault = content.some((one) => isElement(one, SOAP, 'Fault'));
      if (!isFault && content.length > 0) return rowsIn(content);
      throw new Error(`it does not answer ${type} (status ${head.status})`);
    });

  async function functions(): Promise<void> {
    const own = (await rowsOf('MDSCHEMA_FUNCTIONS')).flatMap((row) => {
      const name = row('FUNCTION_NAME');
      const isKnown = KNOWN_FUNCTIONS.has(name.toLowerCase()) && row('ORIGIN') !== '2';
      const isName = /^[a-z]\w*(?:\.\w+)*$/i.test(name);
      return isName && !isKnown && !isChanging(name) && isNew(name) ? [name] : [];
    });
    const names = listOf([...new Set(own)], 50);
    if (names !== '') lines.push([`functions ${names}`, 'pass', DECLARE]);
  }

  async function formulas(): Promise<void> {
    const found: { cube: string; what: string }[] = [];
    const catalogs = (await rowsOf('DBSCHEMA_CATALOGS')).map((row) => row('CATALOG_NAME'));
    for (const catalog of catalogs.slice(0, MOST_CATALOGS)) {
      for (const [type, column] of WITH_FORMULAS) {
        for (const row of await rowsOf(type, catalog)) {
          const { bypass, unknown } = judgeFormula(row('EXPRESSION'), ENGINE_KINDS[engine.kind]);
          const calls = listOf(unknown.filter(isNew));
          const what = `${row(column)} (${bypass ?? `calls ${calls}`})`;
          const cube = `cube ${row('CUBE_NAME')} of ${catalog}`;
          if (bypass !== undefined || calls !== '') found.push({ cube, what });
        }
      }
    }
    for (const [cube, all] of Map.groupBy(found, (one) => one.cube)) {
      lines.push([cube, 'hides', `${listOf(all.map(({ what }) => what))}; ${SWITCH_OFF}`]);
    }
  }

  for (const [what, look] of Object.entries({ functions, formulas })) {
    await look().catch((error: unknown) => {
      lines.push([`${what} of ${engine.url[0]}`, 'unknown', describeFailure(error)]);
    });
  }
  replicas.close();
  return lines;
}
