import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { promisify } from 'node:util';

const run = promisify(execFile);

const JAR_FOLDER = '/usr/share/java';

/** Debian's packages of Mondrian 3.11 and what it needs; the JDK because the main class is compiled here. */
const PACKAGES = [
  'default-jdk-headless',
  'libmondrian-java',
  'libjetty9-java',
  'libhsqldb-java',
  'libcommons-collections3-java',
  'libservlet-api-java',
  'libjsp-api-java',
  'liblog4j1.2-java',
];

const JARS = [
  'mondrian',
  'olap4j',
  'olap4j-xmla',
  'eigenbase-xom',
  'eigenbase-properties',
  'eigenbase-resgen',
  'commons-dbcp',
  'commons-pool',
  'commons-collections3',
  'commons-logging',
  'commons-math',
  'commons-vfs2',
  'commons-io',
  'commons-lang3',
  'java-cup-0.11b-runtime',
  'log4j-1.2',
  'xercesImpl',
  'hsqldb',
  'servlet-api',
  'jetty9-server',
  'jetty9-servlet',
  'jetty9-http',
  'jetty9-io',
  'jetty9-util',
  'jetty9-util-ajax',
  'jetty9-security',
].map((name) => `${JAR_FOLDER}/${name}.jar`);

/** The class path of the engine. */
export const ENGINE_CLASS_PATH: readonly string[] = JARS;

const INSTALL = `apt-get install --no-install-recommends -y ${PACKAGES.join(' ')}`;

async function missing(): Promise<string[]> {
  const jars = JARS.filter((jar) => !existsSync(jar));
  const tools = await Promise.all(
    ['java', 'javac'].map(async (tool) => {
      try {
        await run(tool, ['-version']);
        return [];
      } catch {
        return [tool];
      }
    }),
  );
  return [...tools.flat(), ...jars];
}

/**
 * Makes sure that Java and the engine's jars are here. Installs Debian's packages when this process may;
 * otherwise, or when that was not enough, throws an Error that names what is missing and the command to run.
 */
export async function ensureEnginePackages(): Promise<void> {
  if ((await missing()).length === 0) return;
  let reason = 'only root may install packages';
  if (process.getuid?.() === 0) {
    try {
      const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
      await run('apt-get', ['update'], { env });
      await run('sh', ['-c', INSTALL], { env, maxBuffer: 64 * 1024 * 1024 });
      reason = 'they are not where Debian 12 puts them';
    } catch (error) {
      reason = error instanceof Error ? error.message : String(error);
    }
  }
  const still = await missing();
  if (still.length === 0) return;
  throw new Error(
    `The engine needs ${still.join(', ')}. Run as root: apt-get update && ${INSTALL} (${reason})`,
  );
}
